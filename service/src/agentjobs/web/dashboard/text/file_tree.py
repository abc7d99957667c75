"""The changed files as a tree of folders. A folder with nothing but one folder shares its line."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from markupsafe import Markup

from agentjobs.web.dashboard.text.diff_view import FileView
from agentjobs.web.dashboard.text.visible_text import visible

# Deeper folders are part of the names of their files.
_MAX_DEPTH = 8
_MAX_PARTS = 40
_SIGNS = {"added": "A", "copied": "C", "deleted": "D", "renamed": "R", "type changed": "T"}

# A file, and the folders and the name that remain of its path.
_Entry = tuple[Sequence[str], FileView]


def file_tree(files: Iterable[FileView]) -> Markup:
    """Nested lists of links to the files of a page."""
    entries = [(file.path.split("/", _MAX_PARTS), file) for file in files]
    entries.sort(key=lambda entry: _order(entry[0]))
    html = "".join(_items(entries, _MAX_DEPTH))
    return Markup(f"<ul>{html}</ul>")  # noqa: S704 - names are escaped below


def _order(parts: Sequence[str]) -> list[tuple[bool, str]]:
    """Folders first, then files."""
    return [(index == len(parts) - 1, part) for index, part in enumerate(parts)]


def _items(entries: Sequence[_Entry], depth: int) -> Iterable[str]:
    for folder, grouped in groupby(entries, _folder if depth else lambda _: ""):
        members = list(grouped)
        if not folder:
            yield from (_link(parts, file) for parts, file in members)
            continue
        names = _shared(members)
        inner = [(parts[len(names) :], file) for parts, file in members]
        label = escape(visible("/".join(names)))
        items = "".join(_items(inner, depth - 1))
        yield f"<li><details open><summary>{label}</summary><ul>{items}</ul></details></li>"


def _folder(entry: _Entry) -> str:
    parts, _ = entry
    return parts[0] + "/" if len(parts) > 1 else ""


def _shared(entries: Sequence[_Entry]) -> Sequence[str]:
    """The folders that all of them are in. Sorted, so the first and the last differ first."""
    first, last = entries[0][0][:-1], entries[-1][0][:-1]
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    return first[:count]


def _link(parts: Sequence[str], file: FileView) -> str:
    name = escape(visible("/".join(parts)))
    sign = _SIGNS.get(file.change, "")
    label = f' <span class="quiet" title="{file.change}">{sign}</span>' if sign else ""
    plus, minus = f"+{file.additions}", f"\N{MINUS SIGN}{file.deletions}"
    counts = f'<span class="plus">{plus}</span> <span class="minus">{minus}</span>'
    counts = f" {counts}" if file.counted else ""
    return f'<li><a href="#{file.anchor}">{name}</a>{label}{counts}</li>'

"""Collects the pages of the documentation site in one directory, as plain Markdown.

Pages are written for code hosts. Here links that leave docs/ lead to pages of the site, and a
picture for each color scheme becomes what the theme shows. The site generator needs no plugin.
"""

import json
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.reference.api import render_api
from scripts.reference.commands import render_commands
from scripts.reference.settings import render_settings

PROJECT = Path(__file__).resolve().parent.parent
DOCS = PROJECT / "docs"
ICON = PROJECT / "service/src/agentjobs/web/dashboard/static/icon.svg"
# Files outside of docs/ that are pages of the site, by their path in it.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "clients/python/README.md": "clients/python.md",
    "clients/typescript/README.md": "clients/typescript.md",
}
# What the site shows in their place.
REPLACED = {"README.md": "index.md", "docs/decisions": "decisions/overview.md"}
_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
# A line of text, or the end of a code block, that a list follows.
_BEFORE_LIST = re.compile(r"(?:\A\n?|^(?!- |\* |\d+\. |\s|\||#|>).*\n)(?=- |1\. )", re.MULTILINE)
_PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]+)" width="(?P<width>\d+)">\s*</picture>'
)


def collect(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    shutil.copy(ICON, target / "images")
    sources = {str(path.relative_to(PROJECT)): path for path in DOCS.rglob("*.md")}
    sources |= {name: PROJECT / name for name in PAGES}
    texts = {name: path.read_text(encoding="utf-8") for name, path in sources.items()}
    pages = {uri_of(name): convert(name, text) for name, text in texts.items()}
    pages |= {uri_of(path): show_source(path) for path in linked_sources(texts)}
    pages["decisions/overview.md"] = _list_decisions(texts)
    for uri, text in {**pages, **_references(texts)}.items():
        path = target / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def convert(name: str, markdown: str) -> str:
    """The page of the site for the file `name` of the repository."""

    def relink(match: re.Match[str]) -> str:
        directory = posixpath.dirname(uri_of(name)) or "."
        target = posixpath.relpath(uri_of(_resolve(name, match[1])), directory)
        return f"]({target}{match[2] or ''})"

    def change(text: str) -> str:
        # The generator needs an empty line before a list, code hosts do not.
        return _BEFORE_LIST.sub(r"\g<0>\n", _LINK.sub(relink, _PICTURE.sub(_images, text)))

    return _outside_of_code(markdown, change)


def uri_of(path: str) -> str:
    """Where a file or a directory of the repository is in the site."""
    if path in PAGES or path in REPLACED:
        return {**PAGES, **REPLACED}[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    # The generator reports a link to a file that does not exist.
    return f"files/{path}.md" if (PROJECT / path).exists() else path


def linked_sources(texts: dict[str, str]) -> list[str]:
    """Files and directories of the repository that pages link to and that are no pages."""
    paths = {_resolve(name, target) for name, text in texts.items() for target in _targets(text)}
    return sorted(path for path in paths if uri_of(path).startswith("files/"))


def show_source(path: str) -> str:
    """A file, or the files of a directory, as a page."""
    source = PROJECT / path
    # A search should find what explains the file.
    parts = ["---\nsearch:\n  exclude: true\n---", f"# `{path}`"]
    for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if file.is_file():
            title = f"## `{file.relative_to(source)}`\n\n" if source.is_dir() else ""
            parts.append(f"{title}````text\n{file.read_text(encoding='utf-8').rstrip()}\n````")
    return "\n\n".join(parts)


def _references(texts: dict[str, str]) -> dict[str, str]:
    document = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    pages = {f"reference/api/{name}": text for name, text in render_api(document).items()}
    pages["reference/commands.md"] = render_commands()
    pages["reference/settings.md"] = render_settings(texts["docs/operating.md"])
    return pages


def _list_decisions(texts: dict[str, str]) -> str:
    lines = ["# Decisions", "", "Choices that had a real alternative, each on one page.", ""]
    for name in sorted(name for name in texts if name.startswith("docs/decisions/")):
        title = texts[name].partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({posixpath.basename(name)})")
    return "\n".join(lines)


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _images(match: re.Match[str]) -> str:
    """Two pictures, of which the theme shows the one of the chosen color scheme."""
    return "\n".join(
        f"![{match['alt']}]({match[scheme]}#only-{scheme}){{ width={match['width']} }}"
        for scheme in ("light", "dark")
    )


def _resolve(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _targets(markdown: str) -> Iterator[str]:
    return (match[1] for match in _LINK.finditer(_FENCE.sub("", markdown)))


if __name__ == "__main__":
    collect(Path(sys.argv[1]))

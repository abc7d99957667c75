"""Renders a diff for a page: which files are expanded, and each line as highlighted HTML.

Large files are fetched when they are opened. Runs no git.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from html import escape

import msgspec
from markupsafe import Markup
from pygments.lexer import Lexer

from agentjobs.local_git.patch import Diff, DiffLine, FileDiff
from agentjobs.web.dashboard.text.diff_rows import (
    NO_INSERTS,
    LineView,
    Place,
    split_rows,
    unified_rows,
)
from agentjobs.web.dashboard.text.highlighting import highlight, language_of_file
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs_runtime.json_fields import copy_fields

MAX_OPEN_LINES = 400
MAX_PAGE_LINES = 2_000
_HIGHLIGHT_SECONDS = 0.4
_KEY_LENGTH = 10
# Columns that fit a narrow window without scrolling.
_NARROW_COLUMNS = 40


class FileView(msgspec.Struct, frozen=True):
    """`lazy` files have no lines here; they are fetched. `is_wide` files may need scrolling."""

    index: int
    path: str
    old_path: str | None
    change: str
    additions: int
    deletions: int
    counted: bool
    complete: bool
    lazy: bool
    is_wide: bool
    lines: tuple[LineView, ...]
    blob_id: str = ""

    @property
    def key(self) -> str:
        """Names the file in addresses, whatever characters its path has."""
        digest = hashlib.sha256(self.path.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:_KEY_LENGTH]

    @property
    def anchor(self) -> str:
        """The fragment that leads to the file. Lines add their side and number, as in `…R12`."""
        return f"diff-{self.key}"

    def rows(self, *, split: bool = False, inserts: Mapping[Place, Markup] = NO_INSERTS) -> Markup:
        """Table rows of all lines; a template would take ten times as long."""
        render = split_rows if split else unified_rows
        return render(self.anchor, self.lines, inserts)


class DiffView(msgspec.Struct, frozen=True):
    """`counted` is False if a file was too large to count; the totals do not include it."""

    files: tuple[FileView, ...]
    changed_files: int
    additions: int
    deletions: int
    complete: bool
    counted: bool


class CommitRange(msgspec.Struct, frozen=True):
    """The commits of a diff."""

    repo_id: str
    base: str
    head: str


def render_diff_view(diff: Diff) -> DiffView:
    """Slow for large diffs: call it in a thread."""
    renderer = _DiffRenderer()
    files = []
    page_lines = 0
    for index, file in enumerate(diff.files, 1):
        is_lazy = (
            len(file.lines) > MAX_OPEN_LINES
            or page_lines + len(file.lines) > MAX_PAGE_LINES
            or not file.complete
        )
        page_lines += 0 if is_lazy else len(file.lines)
        files.append(renderer.file(file, index, lazy=is_lazy))
    return DiffView(
        files=tuple(files),
        changed_files=diff.changed_files,
        additions=diff.additions,
        deletions=diff.deletions,
        complete=len(files) == diff.changed_files,
        counted=all(file.counted for file in files),
    )


def render_file_view(file: FileDiff, index: int) -> FileView:
    """All lines of one file."""
    return _DiffRenderer().file(file, index, lazy=False)


class _DiffRenderer:
    """Highlights until its limit of CPU time is reached; the rest stays plain."""

    def __init__(self) -> None:
        self._deadline = time.thread_time() + _HIGHLIGHT_SECONDS

    def file(self, file: FileDiff, index: int, *, lazy: bool) -> FileView:
        shown = () if lazy else file.lines
        return copy_fields(
            file,
            FileView,
            index=index,
            lazy=lazy,
            is_wide=any(len(line.text) > _NARROW_COLUMNS for line in shown),
            lines=tuple(
                LineView(line.kind, html, line.old_number, line.new_number)
                for line, html in zip(shown, self._render(file.path, shown), strict=True)
            ),
        )

    def _render(self, path: str, lines: tuple[DiffLine, ...]) -> list[Markup]:
        if not lines:
            return []
        texts = [visible(line.text) for line in lines]
        html = [escape(text, quote=False) for text in texts]
        language = language_of_file(path) if time.thread_time() < self._deadline else None
        if language is not None:
            for first, last in _hunks(lines):
                self._highlight_hunk(lines[first:last], texts, html, first, language)
        return list(map(Markup, html))

    def _highlight_hunk(
        self,
        hunk: Sequence[DiffLine],
        texts: list[str],
        html: list[str],
        first: int,
        language: Lexer,
    ) -> None:
        """Each side separately; together they are not valid code."""
        for excluded in ("added", "removed"):
            side = [
                first + index
                for index, line in enumerate(hunk)
                if line.kind not in {excluded, "hunk", "note"}
            ]
            if all(hunk[index - first].kind == "context" for index in side) and excluded == "added":
                continue
            highlighted = highlight(
                [texts[index] for index in side], language, deadline=self._deadline
            )
            for index, line in zip(side, highlighted or (), strict=False):
                html[index] = line


def _hunks(lines: Sequence[DiffLine]) -> list[tuple[int, int]]:
    """Start and end index of each hunk."""
    starts = [index for index, line in enumerate(lines) if line.kind == "hunk"]
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))

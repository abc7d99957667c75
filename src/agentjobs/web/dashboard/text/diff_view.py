"""A diff as a page shows it: which files are open, and every line as safe, coloured HTML.

Decides what is shown at once and what is fetched when somebody opens it. Runs no git.
"""

import time
from collections.abc import Sequence
from html import escape

import msgspec
from markupsafe import Markup

from agentjobs.local_git.patch import Diff, DiffLine, FileDiff, LineKind
from agentjobs.web.dashboard.text.diff_cache import Lines, RenderedDiffs, shared
from agentjobs.web.dashboard.text.highlighting import Language, highlight, language_of_file
from agentjobs.web.dashboard.text.visible_text import visible

MAX_OPEN_LINES = 400
MAX_PAGE_LINES = 2_000
MAX_HIGHLIGHTED_FILE_LINES = 1_500
MAX_HIGHLIGHTED_PAGE_LINES = 4_000
_HIGHLIGHT_SECONDS = 0.4
# What fits a narrow window without scrolling.
_NARROW = 40


class LineView(msgspec.Struct, frozen=True):
    kind: LineKind
    html: Markup
    old_number: int | None
    new_number: int | None


class FileView(msgspec.Struct, frozen=True):
    """`lazy`: it has no lines here, they are fetched. `is_wide`: it may have to be scrolled."""

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

    @property
    def rows(self) -> Markup:
        """All lines as rows of a table: a template would take ten times as long for them."""
        return Markup("".join(map(_row, self.lines)))  # noqa: S704 - see there


class DiffView(msgspec.Struct, frozen=True):
    """`counted` is False when a file was too large to be counted: the numbers lack it then."""

    files: tuple[FileView, ...]
    changed_files: int
    additions: int
    deletions: int
    complete: bool
    counted: bool


class CommitRange(msgspec.Struct, frozen=True):
    """Whose diff it is: what was rendered for it is remembered under this name."""

    repo_id: str
    base: str
    head: str


def render_diff_view(
    diff: Diff, ends: CommitRange | None = None, cache: RenderedDiffs | None = None
) -> DiffView:
    """Takes its time on a large diff: call it beside the event loop."""
    maker = _Maker(ends, cache or shared(), "page")
    files = []
    page_lines = 0
    for index, file in enumerate(diff.files, 1):
        is_lazy = (
            len(file.lines) > MAX_OPEN_LINES
            or page_lines + len(file.lines) > MAX_PAGE_LINES
            or not file.complete
        )
        page_lines += 0 if is_lazy else len(file.lines)
        files.append(maker.file(file, index, lazy=is_lazy))
    return DiffView(
        files=tuple(files),
        changed_files=diff.changed_files,
        additions=diff.additions,
        deletions=diff.deletions,
        complete=len(files) == diff.changed_files,
        counted=all(file.counted for file in files),
    )


def render_file_view(
    file: FileDiff, index: int, ends: CommitRange | None = None, cache: RenderedDiffs | None = None
) -> FileView:
    """One file alone, all of its lines."""
    return _Maker(ends, cache or shared(), "alone").file(file, index, lazy=False)


class _Maker:
    """Counts what it has coloured: after so many lines, or so long, the rest stays plain."""

    def __init__(self, ends: CommitRange | None, cache: RenderedDiffs, how: str) -> None:
        self._ends = ends
        self._cache = cache
        self._how = how
        self._lines_left = MAX_HIGHLIGHTED_PAGE_LINES
        self._deadline = time.thread_time() + _HIGHLIGHT_SECONDS

    def file(self, file: FileDiff, index: int, *, lazy: bool) -> FileView:
        shown = () if lazy else file.lines
        return FileView(
            index=index,
            path=file.path,
            old_path=file.old_path,
            change=file.change,
            additions=file.additions,
            deletions=file.deletions,
            counted=file.counted,
            complete=file.complete,
            lazy=lazy,
            is_wide=any(len(line.text) > _NARROW for line in shown),
            lines=tuple(
                LineView(line.kind, html, line.old_number, line.new_number)
                for line, html in zip(shown, self._html(file.path, shown), strict=True)
            ),
        )

    def _html(self, path: str, lines: tuple[DiffLine, ...]) -> Lines:
        if not lines:
            return ()
        if self._ends is None:
            return self._rendered(path, lines)
        ends = self._ends
        # A file that once took too long to be read whole had fewer lines then.
        key = (ends.repo_id, ends.base, ends.head, path, self._how, str(len(lines)))
        return self._cache.get(key, lambda: self._rendered(path, lines))

    def _rendered(self, path: str, lines: tuple[DiffLine, ...]) -> Lines:
        texts = [visible(line.text) for line in lines]
        html = [escape(text, quote=False) for text in texts]
        language = language_of_file(path) if self._may_highlight(lines) else None
        if language is not None:
            self._lines_left -= len(lines)
            for first, last in _hunks(lines):
                self._colour(lines[first:last], texts, html, first, language)
        return tuple(map(Markup, html))

    def _may_highlight(self, lines: tuple[DiffLine, ...]) -> bool:
        most = min(MAX_HIGHLIGHTED_FILE_LINES, self._lines_left)
        return len(lines) <= most and time.thread_time() < self._deadline

    def _colour(
        self,
        hunk: Sequence[DiffLine],
        texts: list[str],
        html: list[str],
        first: int,
        language: Language,
    ) -> None:
        """Each side by itself: together they would be no text of the language."""
        for other in ("added", "removed"):
            side = [
                first + at
                for at, line in enumerate(hunk)
                if line.kind not in {other, "hunk", "note"}
            ]
            if all(hunk[at - first].kind == "context" for at in side) and other == "added":
                continue
            coloured = highlight([texts[at] for at in side], language, deadline=self._deadline)
            for at, line in zip(side, coloured or (), strict=False):
                html[at] = line


def _row(line: LineView) -> str:
    """Numbers, one of our own words, and what is safe already."""
    old, new = line.old_number or "", line.new_number or ""
    numbers = f'<td class="n">{old}</td><td class="n">{new}</td>'
    return f'<tr class="{line.kind}">{numbers}<td class="code">{line.html}</td></tr>\n'


def _hunks(lines: Sequence[DiffLine]) -> list[tuple[int, int]]:
    """Where each hunk begins and ends."""
    starts = [at for at, line in enumerate(lines) if line.kind == "hunk"]
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))

"""The comments of a pull request as conversations: where on its files each is shown now."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape

import msgspec
from markupsafe import Markup

from agentjobs.jobs.operations.comment_follow_up import MAX_COMMENTS
from agentjobs.jobs.views.listing import JobLine, lines_of_pull
from agentjobs.pulls.comments import QUOTED_CHARACTERS, CodePlace, Comment, list_comments
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.pulls.comparison_cache import Comparison, load_comparison
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text import markdown
from agentjobs.web.dashboard.text.diff_rows import Place
from agentjobs.web.dashboard.text.diff_view import FileView
from agentjobs.web.dashboard.text.visible_text import visible

_MAX_COMMENTS_LENGTH = 256 * 1024
_TAG = re.compile("<[^>]*>")


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A comment with its replies. `place` is where it is shown now: None for a comment on the
    whole pull request, and for one on a line that has changed since."""

    comments: Sequence[tuple[Comment, Markup]]
    place: Place | None = None
    anchor: str = ""
    job: JobLine | None = None

    @property
    def root(self) -> Comment:
        return self.comments[0][0]

    @property
    def is_outdated(self) -> bool:
        return self.root.place is not None and self.place is None

    @property
    def is_pending(self) -> bool:
        """True if the comment could start a follow-up, and has not."""
        is_open = self.root.place is not None and self.root.resolved_at is None
        return is_open and all(comment.job_id is None for comment, _ in self.comments)


class Conversation(msgspec.Struct, frozen=True):
    """`comment_count` includes those that do not fit on a page."""

    body: Markup
    threads: Sequence[Thread]
    shown_count: int
    comment_count: int

    @property
    def pending(self) -> list[str]:
        """The first comments that one follow-up could address."""
        pending = [thread for thread in self.threads if thread.is_pending]
        comments = [comment.id for thread in pending for comment, _ in thread.comments]
        return comments[:MAX_COMMENTS]

    def by_file(self) -> dict[str, list[Thread]]:
        threads: dict[str, list[Thread]] = {}
        for thread in self.threads:
            if thread.root.place is not None:
                threads.setdefault(thread.root.place.path, []).append(thread)
        return threads


async def load_conversation(
    request: PageRequest, pull: Pull, comparison: Comparison, jobs: Sequence[JobLine] = ()
) -> Conversation:
    every = await list_comments(request.db, pull)
    comments = _newest(every)
    # Up to a second for a thousand comments on lines that have changed since.
    body, threads = await asyncio.to_thread(
        _render, pull.body.strip(), comments, comparison, {job.job_id: job for job in jobs}
    )
    return Conversation(body, threads, len(comments), len(every))


async def load_threads_of_file(request: PageRequest, pull: Pull, path: str) -> list[Thread]:
    """Renders no comments of other files: a page may fetch many files one by one."""
    every = await list_comments(request.db, pull)
    roots = {
        comment.id for comment in every if comment.place is not None and comment.place.path == path
    }
    comments = _newest([comment for comment in every if (comment.reply_to or comment.id) in roots])
    if not comments:
        return []
    comparison = await load_comparison(request, pull)
    jobs = {job.job_id: job for job in await lines_of_pull(request.db, pull.repo_id, pull.number)}
    _, threads = await asyncio.to_thread(_render, "", comments, comparison, jobs)
    return threads


async def render_inserts(
    request: PageRequest, pull: Pull, threads: Iterable[Thread]
) -> dict[Place, Markup]:
    """What a file has below its lines."""
    inserts: dict[Place, Markup] = {}
    for thread in threads:
        if thread.place is not None:
            html = await request.fragment("pulls/thread_part.html", pull=pull, thread=thread)
            # A template escapes its values.
            inserts[thread.place] = inserts.get(thread.place, Markup()) + Markup(html)  # noqa: S704
    return inserts


def locate(place: CodePlace, file: FileView | None, head: str) -> Place | None:
    """Where a line is now: at its place, or at the nearest one with the same text."""
    if file is None:
        return None
    if place.commit_id == head or file.lazy:
        return place.side, place.line
    code = place.code.rpartition("\n")[2][1:]
    text, is_cut = visible(code), len(code) >= QUOTED_CHARACTERS
    numbers = [
        number
        for line in file.lines
        if (number := line.old_number if place.side == "left" else line.new_number) is not None
        if line.kind != "context" or place.side == "right"
        if (now := _text(line.html)) == text or (is_cut and now.startswith(text))
    ]
    nearest = min(numbers, key=lambda number: abs(number - place.line), default=None)
    return None if nearest is None else (place.side, nearest)


def line_anchor(file: FileView, place: Place) -> str:
    side, number = place
    return f"{file.anchor}{'L' if side == 'left' else 'R'}{number}"


def _render(
    pull_body: str,
    comments: Sequence[Comment],
    comparison: Comparison,
    jobs: Mapping[str, JobLine],
) -> tuple[Markup, list[Thread]]:
    texts = [pull_body, *(comment.body for comment in comments)]
    body, *bodies = markdown.render_all(texts)
    return body, _threads(list(zip(comments, bodies, strict=True)), comparison, jobs)


def _threads(
    rendered: Sequence[tuple[Comment, Markup]], comparison: Comparison, jobs: Mapping[str, JobLine]
) -> list[Thread]:
    """Sorts by the time of first comments. Replies to comments that do not fit are left out."""
    threads: dict[str, list[tuple[Comment, Markup]]] = {}
    for comment, html in rendered:
        if comment.reply_to is None:
            threads[comment.id] = [(comment, html)]
        elif comment.reply_to in threads:
            threads[comment.reply_to].append((comment, html))
    files = {file.path: file for file in comparison.view.files}
    return [_thread(comments, files, comparison.ends.head, jobs) for comments in threads.values()]


def _thread(
    comments: Sequence[tuple[Comment, Markup]],
    files: Mapping[str, FileView],
    head: str,
    jobs: Mapping[str, JobLine],
) -> Thread:
    started = [comment.job_id for comment, _ in comments if comment.job_id is not None]
    job = jobs.get(started[-1]) if started else None
    code = comments[0][0].place
    file = None if code is None else files.get(code.path)
    place = None if code is None else locate(code, file, head)
    anchor = line_anchor(file, place) if file is not None and place is not None else ""
    return Thread(comments=comments, place=place, anchor=anchor, job=job)


def _newest(comments: list[Comment]) -> list[Comment]:
    """The newest comments that fit on a page."""
    length = 0
    for index in range(len(comments), 0, -1):
        length += len(comments[index - 1].body)
        if length > _MAX_COMMENTS_LENGTH:
            return comments[index:]
    return comments


def _text(html: str) -> str:
    """The plain text of a highlighted line."""
    return unescape(_TAG.sub("", html))

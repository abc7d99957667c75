"""One pull request: conversation, commits, changes; merge and close.

Of one that a platform elsewhere keeps only what is known here, and the way there.
"""

import asyncio
import re
from weakref import WeakValueDictionary

from starlette.responses import Response

from agentjobs.jobs.review import mark_ready
from agentjobs.jobs.views.listing import lines_of_pull
from agentjobs.problems import Fault, Problem
from agentjobs.pulls.comments import Comment, add_comment, list_comments
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import Pull, close_pull, get_pull
from agentjobs.web.dashboard.diff_pages import addresses_of_files, show_file
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.pulls.comparison_cache import proposed_by
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.text import markdown

_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
_SHOWN_COMMENTS_LENGTH = 256 * 1024
_PLACE = f"/{{org}}/{REPO}/pulls/{{number}}"


async def show(visit: Visit) -> Response:
    return await _page(visit, await _pull(visit))


async def show_one_file(visit: Visit) -> Response:
    pull = await _pull(visit)
    if pull.url is not None:
        raise Problem("not_found", "The platform of this pull request shows what it changes.")
    return await show_file(visit, pull.repo_id, pull.path)


async def comment(visit: Visit) -> Response:
    pull, body = await _pull(visit), visit.form.raw("body")
    try:
        await add_comment(visit.db, visit.organization, pull.repo, pull.number, body)
    except Problem as problem:
        return await _page(visit, pull, problem, typed=body)
    return visit.redirect(f"{pull.path}", said="Your comment is added.")


async def merge(visit: Visit) -> Response:
    pull = await _pull(visit)
    try:
        async with _turn(pull):
            await merge_pull(visit.db, visit.settings, visit.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(visit, pull, _in_plain_words(problem))
    return visit.redirect(pull.path, said=f"Merged into {pull.base_branch}.")


async def close(visit: Visit) -> Response:
    pull = await _pull(visit)
    try:
        async with _turn(pull):
            await close_pull(visit.db, visit.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(visit, pull, problem)
    return visit.redirect(pull.path, said="Closed without merging. Its branch stays.")


async def ready(visit: Visit) -> Response:
    pull = await _pull(visit)
    try:
        await mark_ready(visit.db, visit.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(visit, pull, problem)
    return visit.redirect(pull.path, said="Ready for review.")


def _turn(pull: Pull) -> asyncio.Lock:
    """Of two who merge and close at once, the second one waits and is told what became of it."""
    return _turns.setdefault(pull.path, asyncio.Lock())


async def _pull(visit: Visit) -> Pull:
    full_name = visit.path("full_name")
    number = visit.path("number")
    # 0, which no pull request has, for what is not a number or absurdly large.
    at = int(number) if re.fullmatch("[0-9]{1,15}", number) else 0
    try:
        return await get_pull(visit.db, visit.organization, full_name, at)
    except Problem:
        raise Problem(
            "pull_not_found",
            "There is no such pull request in your organization; Pull requests lists them.",
        ) from None


async def _page(
    visit: Visit, pull: Pull, problem: Problem | None = None, typed: str = ""
) -> Response:
    jobs = await lines_of_pull(visit.db, pull.repo_id, pull.number)
    if pull.url is not None:
        return await visit.page("pulls/elsewhere.html", problem=problem, pull=pull, jobs=jobs)
    proposed = await proposed_by(visit, pull)
    every = await list_comments(visit.db, pull)
    comments = _newest(every)
    texts = [pull.body.strip(), *(each.body for each in comments)]
    body, *said = await asyncio.to_thread(markdown.render_all, texts)
    return await visit.page(
        "pulls/detail.html",
        problem=problem,
        pull=pull,
        body=body,
        comments=list(zip(comments, said, strict=True)),
        comment_count=len(every),
        jobs=jobs,
        proposal=proposed,
        view=proposed.view,
        lazy_url=addresses_of_files(visit, proposed.view, proposed.ends, f"{pull.path}/file"),
        typed=typed,
    )


def _newest(comments: list[Comment]) -> list[Comment]:
    """As much of a long conversation as a page can hold."""
    length = 0
    for at in range(len(comments), 0, -1):
        length += len(comments[at - 1].body)
        if length > _SHOWN_COMMENTS_LENGTH:
            return comments[at:]
    return comments


def _in_plain_words(problem: Problem) -> Problem:
    if problem.code != "merge_conflict":
        return problem
    details = problem.details if isinstance(problem.details, dict) else {}
    files: list[Fault] = [
        {"field": str(file), "message": "was changed on both sides"}
        for file in details.get("files", [])
    ]
    return Problem(
        "merge_conflict",
        "It does not merge cleanly: the base branch has changed meanwhile. A follow-up job, or "
        "you with git, can bring the branch up to date.",
        details=files[:50],
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", _PLACE, "viewer", show, takes_keys=True),
    Place("GET", f"{_PLACE}/file", "viewer", show_one_file, takes_keys=True),
    Place("POST", f"{_PLACE}/comments", "member", comment),
    Place("POST", f"{_PLACE}/merge", "member", merge),
    Place("POST", f"{_PLACE}/close", "member", close),
    Place("POST", f"{_PLACE}/ready", "member", ready),
]

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
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.comparison_cache import proposed_by
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text import markdown

_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
_SHOWN_COMMENTS_LENGTH = 256 * 1024
_PLACE = f"/{{org}}/{REPO}/pulls/{{number}}"


async def show(request: PageRequest) -> Response:
    return await _page(request, await _pull(request))


async def show_one_file(request: PageRequest) -> Response:
    pull = await _pull(request)
    if pull.url is not None:
        raise Problem("not_found", "The platform of this pull request shows what it changes.")
    return await show_file(request, pull.repo_id, pull.path)


async def comment(request: PageRequest) -> Response:
    pull, body = await _pull(request), request.form.raw("body")
    try:
        await add_comment(request.db, request.organization, pull.repo, pull.number, body)
    except Problem as problem:
        return await _page(request, pull, problem, typed=body)
    return request.redirect(f"{pull.path}", banner="Your comment is added.")


async def merge(request: PageRequest) -> Response:
    pull = await _pull(request)
    try:
        async with _turn(pull):
            await merge_pull(
                request.db, request.settings, request.organization, pull.repo, pull.number
            )
    except Problem as problem:
        return await _page(request, pull, _in_plain_words(problem))
    return request.redirect(pull.path, banner=f"Merged into {pull.base_branch}.")


async def close(request: PageRequest) -> Response:
    pull = await _pull(request)
    try:
        async with _turn(pull):
            await close_pull(request.db, request.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(request, pull, problem)
    return request.redirect(pull.path, banner="Closed without merging. Its branch stays.")


async def ready(request: PageRequest) -> Response:
    pull = await _pull(request)
    try:
        await mark_ready(request.db, request.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(request, pull, problem)
    return request.redirect(pull.path, banner="Ready for review.")


def _turn(pull: Pull) -> asyncio.Lock:
    """Of two who merge and close at once, the second one waits and is told what became of it."""
    return _turns.setdefault(pull.path, asyncio.Lock())


async def _pull(request: PageRequest) -> Pull:
    full_name = request.path_param("full_name")
    number = request.path_param("number")
    # 0, which no pull request has, for what is not a number or absurdly large.
    at = int(number) if re.fullmatch("[0-9]{1,15}", number) else 0
    try:
        return await get_pull(request.db, request.organization, full_name, at)
    except Problem:
        raise Problem(
            "pull_not_found",
            "There is no such pull request in your organization; Pull requests lists them.",
        ) from None


async def _page(
    request: PageRequest, pull: Pull, problem: Problem | None = None, typed: str = ""
) -> Response:
    jobs = await lines_of_pull(request.db, pull.repo_id, pull.number)
    if pull.url is not None:
        return await request.render("pulls/elsewhere.html", problem=problem, pull=pull, jobs=jobs)
    proposed = await proposed_by(request, pull)
    every = await list_comments(request.db, pull)
    comments = _newest(every)
    texts = [pull.body.strip(), *(each.body for each in comments)]
    body, *said = await asyncio.to_thread(markdown.render_all, texts)
    return await request.render(
        "pulls/detail.html",
        problem=problem,
        pull=pull,
        body=body,
        comments=list(zip(comments, said, strict=True)),
        comment_count=len(every),
        jobs=jobs,
        proposal=proposed,
        view=proposed.view,
        lazy_url=addresses_of_files(request, proposed.view, proposed.ends, f"{pull.path}/file"),
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


ROUTES: Routes = [
    PageRoute("GET", _PLACE, "viewer", show, takes_keys=True),
    PageRoute("GET", f"{_PLACE}/file", "viewer", show_one_file, takes_keys=True),
    PageRoute("POST", f"{_PLACE}/comments", "member", comment),
    PageRoute("POST", f"{_PLACE}/merge", "member", merge),
    PageRoute("POST", f"{_PLACE}/close", "member", close),
    PageRoute("POST", f"{_PLACE}/ready", "member", ready),
]

"""The conversation of a pull request; comment, merge, close.

For a pull request on another platform, the page shows a summary and links there.
"""

import asyncio
from weakref import WeakValueDictionary

from starlette.responses import Response

from agentjobs.jobs.review import mark_ready
from agentjobs.jobs.views.listing import lines_of_pull
from agentjobs.problems import Fault, Problem
from agentjobs.pulls.branches import close_and_remove_branch
from agentjobs.pulls.comments import Comment, add_comment, list_comments
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.merge_box import method_named, remember_method
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_pull, tab_values
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text import markdown

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
_MAX_COMMENTS_LENGTH = 256 * 1024


async def show(request: PageRequest) -> Response:
    return await _page(request, await find_pull(request))


async def comment(request: PageRequest) -> Response:
    pull, body = await find_pull(request), request.form.raw("body")
    try:
        await add_comment(request.db, request.organization, pull.repo, pull.number, body)
    except Problem as problem:
        return await _page(request, pull, problem, comment_body=body)
    return request.redirect(pull.path, banner="Your comment was added.")


async def merge(request: PageRequest) -> Response:
    pull = await find_pull(request)
    method = method_named(request.form.text("method"))
    try:
        async with _lock(pull):
            await merge_pull(
                request.db,
                request.settings,
                request.organization,
                pull.repo,
                pull.number,
                method=method,
                # What the page showed.
                head_commit=request.form.text("head_commit") or None,
            )
    except Problem as problem:
        return await _page(request, pull, _for_page(problem))
    response = request.redirect(pull.path, banner=f"Merged into {pull.base_branch}.")
    remember_method(request, response, method)
    return response


async def close(request: PageRequest) -> Response:
    pull = await find_pull(request)
    try:
        async with _lock(pull):
            await close_and_remove_branch(
                request.db, request.settings, request.organization, pull.repo, pull.number
            )
    except Problem as problem:
        return await _page(request, pull, problem)
    return request.redirect(pull.path, banner="Closed without merging.")


async def ready(request: PageRequest) -> Response:
    pull = await find_pull(request)
    try:
        await mark_ready(request.db, request.organization, pull.repo, pull.number)
    except Problem as problem:
        return await _page(request, pull, problem)
    return request.redirect(pull.path, banner="Marked as ready for review.")


def _lock(pull: Pull) -> asyncio.Lock:
    """Serialises concurrent merges and closes; the second gets a proper error."""
    return _locks.setdefault(pull.path, asyncio.Lock())


async def _page(
    request: PageRequest, pull: Pull, problem: Problem | None = None, comment_body: str = ""
) -> Response:
    jobs = await lines_of_pull(request.db, pull.repo_id, pull.number)
    if pull.url is not None:
        return await request.render(
            "pulls/on_platform.html", problem=problem, pull=pull, jobs=jobs, tab="conversation"
        )
    values = await tab_values(request, pull, "conversation")
    all_comments = await list_comments(request.db, pull)
    comments = _newest(all_comments)
    texts = [pull.body.strip(), *(each.body for each in comments)]
    body, *bodies = await asyncio.to_thread(markdown.render_all, texts)
    return await request.render(
        "pulls/conversation.html",
        **values,
        problem=problem,
        body=body,
        comments=list(zip(comments, bodies, strict=True)),
        jobs=jobs,
        comment_body=comment_body,
    )


def _newest(comments: list[Comment]) -> list[Comment]:
    """The newest comments that fit on a page."""
    length = 0
    for index in range(len(comments), 0, -1):
        length += len(comments[index - 1].body)
        if length > _MAX_COMMENTS_LENGTH:
            return comments[index:]
    return comments


def _for_page(problem: Problem) -> Problem:
    if problem.code == "pull_changed":
        message = "New commits were pushed after you opened the page. Review them before you merge."
        return Problem(problem.code, message)
    details = problem.details if isinstance(problem.details, dict) else {}
    if "files" not in details:
        return problem
    files: list[Fault] = [
        {"field": str(file), "message": "changed on both branches"} for file in details["files"]
    ]
    return Problem(
        problem.code,
        "The branch has conflicts with the base branch. Start a follow-up job, or resolve the "
        "conflicts with git.",
        details=files[:50],
    )


ROUTES: Routes = [
    PageRoute("GET", PATH, "viewer", show, takes_keys=True),
    PageRoute("POST", f"{PATH}/comments", "member", comment),
    PageRoute("POST", f"{PATH}/merge", "member", merge),
    PageRoute("POST", f"{PATH}/close", "member", close),
    PageRoute("POST", f"{PATH}/ready", "member", ready),
]

"""The conversation of a pull request; merge, close.

For a pull request on another platform, the page shows a summary and links there.
"""

import asyncio
from weakref import WeakValueDictionary

from starlette.responses import Response

from agentjobs.jobs.operations.conflict_follow_up import resolve_conflicts
from agentjobs.jobs.review import mark_ready
from agentjobs.jobs.views.listing import lines_of_pull
from agentjobs.pulls.branches import close_and_remove_branch
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.merge_box import method_named, remember_method
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_pull, tab_values
from agentjobs.web.dashboard.pulls.threads import load_conversation
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Fault, Problem

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def show_unmerged(request: PageRequest, problem: Problem) -> Response:
    return await show(request, _for_page(problem))


async def merge(request: PageRequest) -> Response:
    pull = await find_pull(request)
    method = method_named(request.form.text("method"))
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
    response = request.redirect(pull.path, banner=f"Merged into {pull.base_branch}.")
    remember_method(request, response, method)
    return response


async def resolve(request: PageRequest) -> Response:
    """Asks the agent to resolve conflicts."""
    pull = await find_pull(request)
    async with _lock(pull):
        await resolve_conflicts(request.context.jobs, request.viewer.caller, pull)
    return request.redirect(pull.path, banner="Asked the agent to resolve the conflicts.")


async def close(request: PageRequest) -> Response:
    pull = await find_pull(request)
    async with _lock(pull):
        await close_and_remove_branch(
            request.db, request.settings, request.organization, pull.repo, pull.number
        )
    return request.redirect(pull.path, banner="Closed without merging.")


async def ready(request: PageRequest) -> Response:
    pull = await find_pull(request)
    await mark_ready(request.db, request.organization, pull.repo, pull.number)
    return request.redirect(pull.path, banner="Marked as ready for review.")


def _lock(pull: Pull) -> asyncio.Lock:
    """Serialises concurrent merges and closes; the second gets a proper error."""
    return _locks.setdefault(pull.path, asyncio.Lock())


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    pull, form = await find_pull(request), request.form
    body, beginning = form.raw("body"), form.text("comment")
    jobs = await lines_of_pull(request.db, pull.repo_id, pull.number)
    if pull.url is not None:
        return await request.render(
            "pulls/on_platform.html", problem=problem, pull=pull, jobs=jobs, tab="conversation"
        )
    values = await tab_values(request, pull, "conversation")
    return await request.render(
        "pulls/conversation.html",
        **values,
        problem=problem,
        conversation=await load_conversation(request, pull, values["comparison"], jobs),
        jobs=jobs,
        # What was entered before: a comment, or a reply to one.
        comment_body="" if beginning else body,
        replies={beginning: body} if beginning and body else {},
    )


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
        "The branch has conflicts with the base branch. Ask the agent to resolve them, or do so "
        "with git.",
        details=files[:50],
    )


ROUTES: Routes = [
    PageRoute("GET", PATH, "viewer", show, takes_keys=True),
    PageRoute("POST", f"{PATH}/merge", "member", merge, problem_page=show_unmerged),
    PageRoute("POST", f"{PATH}/resolve-conflicts", "member", resolve, problem_page=show),
    PageRoute("POST", f"{PATH}/close", "member", close, problem_page=show),
    PageRoute("POST", f"{PATH}/ready", "member", ready, problem_page=show),
]

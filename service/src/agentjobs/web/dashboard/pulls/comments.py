"""Adds comments to a pull request or its lines, resolves them, and starts follow-ups with them."""

import re
from typing import Literal

from starlette.responses import Response

from agentjobs.jobs.operations.comment_follow_up import ask_agent
from agentjobs.local_git.repositories import present_path
from agentjobs.pulls.comments import (
    Comment,
    add_comment,
    find_place,
    list_comments,
    resolve_comment,
)
from agentjobs.pulls.comparison import find_tips
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.changes import files_page
from agentjobs.web.dashboard.pulls.detail import show
from agentjobs.web.dashboard.pulls.line_form import LineForm
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_local_pull, find_pull
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem


async def comment(request: PageRequest) -> Response:
    pull, body = await find_pull(request), request.form.raw("body")
    added = await add_comment(request.db, request.organization, pull.repo, pull.number, body)
    return await _added(request, pull, [added], pull.path)


async def comment_on_line(request: PageRequest) -> Response:
    pull, form = await find_local_pull(request), request.form
    # Not stripped: the name of a file may begin or end with a space.
    path, body = form.raw("path"), form.raw("body")
    side: Literal["left", "right"] = "left" if form.text("side") == "left" else "right"
    number = form.text("line")
    line = int(number) if re.fullmatch("[0-9]{1,9}", number) else 0
    try:
        git_dir = present_path(request.settings.repositories_path, pull.repo_id)
        place = await find_place(git_dir, await find_tips(git_dir, pull), path, side, line)
        added = await add_comment(
            request.db, request.organization, pull.repo, pull.number, body, place=place
        )
    except Problem as problem:
        return await files_page(request, pull, problem, LineForm(path, side, line, body))
    return await _added(request, pull, [added], f"{pull.path}/files#{form.text('anchor')[:40]}")


async def reply(request: PageRequest) -> Response:
    pull, body = await find_local_pull(request), request.form.raw("body")
    beginning = request.form.text("comment")
    added = await add_comment(
        request.db, request.organization, pull.repo, pull.number, body, reply_to=beginning
    )
    every = await list_comments(request.db, pull)
    thread = [other for other in every if added.reply_to in (other.id, other.reply_to)]
    return await _added(request, pull, thread, _back(request, pull))


async def resolve(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    is_resolved = request.form.flag("resolved")
    await resolve_comment(request.db, pull, request.form.text("comment"), resolved=is_resolved)
    return request.redirect(
        _back(request, pull), banner="Resolved." if is_resolved else "Reopened."
    )


async def follow_up(request: PageRequest) -> Response:
    """One for several comments."""
    pull = await find_local_pull(request)
    chosen = set(request.form.all("comment"))
    comments = [listed for listed in await list_comments(request.db, pull) if listed.id in chosen]
    job_id = await ask_agent(request.context.jobs, request.viewer.caller, pull, comments)
    return request.redirect(f"/jobs/{job_id}", banner="Started a follow-up for the comments.")


async def _added(request: PageRequest, pull: Pull, comments: list[Comment], back: str) -> Response:
    if not request.form.flag("ask"):
        return request.redirect(back, banner="Your comment was added.")
    try:
        await ask_agent(request.context.jobs, request.viewer.caller, pull, comments)
    except Problem as problem:
        banner = f"Your comment was added, but no follow-up was started. {problem.message}"
        return request.redirect(back, banner=banner, tone="bad")
    return request.redirect(back, banner="Your comment was added, and a follow-up was started.")


def _back(request: PageRequest, pull: Pull) -> str:
    return f"{pull.path}/files" if request.form.text("back") == "files" else pull.path


ROUTES: Routes = [
    PageRoute("POST", f"{PATH}/files/comments", "member", comment_on_line),
    PageRoute("POST", f"{PATH}/comments", "member", comment, problem_page=show),
    PageRoute("POST", f"{PATH}/comments/reply", "member", reply, problem_page=show),
    PageRoute("POST", f"{PATH}/comments/resolve", "member", resolve, problem_page=show),
    PageRoute("POST", f"{PATH}/follow-up", "member", follow_up, problem_page=show),
]

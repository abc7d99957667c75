"""Diffs on pages: of a pull request or a job, whole, or one large file that was asked for."""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from starlette.responses import Response

from agentjobs.local_git.diffs import diff_between, file_diff_between
from agentjobs.local_git.patch import Diff
from agentjobs.local_git.repositories import present_path
from agentjobs.problems import Problem
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import DiffView, Ends, FileView, file_view_of, view_of

_log = logging.getLogger(__name__)
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


async def whole_diff(request: PageRequest, ends: Ends) -> DiffView:
    git_dir = git_dir_of(request, ends.repo_id)
    return await view(await diff_between(git_dir, ends.base, ends.head), ends)


async def view(diff: Diff, ends: Ends) -> DiffView:
    return await asyncio.to_thread(view_of, diff, ends)


async def show_file(request: PageRequest, repo_id: str, back: str) -> Response:
    """One file alone, between the commits that the page named: as a page, or as a part of it."""
    base, head = request.query_param("base"), request.query_param("head")
    # As it is: a name may begin or end with a space.
    path = request.http.query_params.get("path", "")
    if not (_COMMIT.fullmatch(base) and _COMMIT.fullmatch(head)) or "\0" in path:
        raise Problem("not_found", "There is no such file; load the page of the change again.")
    ends = Ends(repo_id, base, head)
    file = await _file(request, ends, path)
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("changes/file_part.html", file=file))
    return await request.render("changes/file.html", file=file, back=back)


def addresses_of_files(
    request: PageRequest, shown: DiffView, ends: Ends, place: str
) -> Callable[[int], str]:
    """For each file of a diff, by its number on the page."""
    paths = {file.index: file.path for file in shown.files}

    def address(index: int) -> str:
        query = {"path": paths[index], "base": ends.base, "head": ends.head}
        return f"{prefix_of(request.settings)}{place}?{urlencode(query)}"

    return address


def git_dir_of(request: PageRequest, repo_id: str) -> Path:
    try:
        return present_path(request.settings.data_path, repo_id)
    except Problem as problem:
        raise unreadable(problem, repo_id) from None


def unreadable(problem: Problem, what: str) -> Problem:
    """Its words are for the operator: they name places on this host."""
    _log.warning("%s cannot be shown: %s", what, problem.message)
    return Problem(
        "repo_unavailable",
        "The files of this repository cannot be read at the moment; tell the operator.",
    )


async def _file(request: PageRequest, ends: Ends, path: str) -> FileView:
    git_dir = git_dir_of(request, ends.repo_id)
    file = await file_diff_between(git_dir, ends.base, ends.head, path)
    if file is None:
        raise Problem("not_found", "This change does not touch that file; load its page again.")
    return await asyncio.to_thread(file_view_of, file, 1, ends)

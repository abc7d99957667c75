"""Diffs on pages: all files of a pull request or a job, or one large file on request."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from agentjobs.local_git.diffs import diff_between, file_diff_between
from agentjobs.local_git.repositories import present_path
from agentjobs.web.dashboard.cookies import CHOICE_SECONDS, DIFF_VIEW, read_cookie, set_cookie
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_rows import NO_INSERTS, Place
from agentjobs.web.dashboard.text.diff_view import (
    CommitRange,
    DiffView,
    FileView,
    render_diff_view,
    render_file_view,
)
from agentjobs.web.dashboard.text.file_tree import file_tree
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem

_log = logging.getLogger(__name__)
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_VIEWS = ("unified", "split")


class DiffPage(msgspec.Struct, frozen=True, kw_only=True):
    """A diff as one viewer sees it. `inserts` returns what a file has below its lines.

    `viewed` are the keys of the files that the viewer has marked; None if there are no marks.
    """

    view: DiffView
    # Addresses of the page itself, and of one file by its index.
    address: str
    file_address: Callable[[int], str]
    split: bool = False
    inserts: Callable[[str], Mapping[Place, Markup]] = lambda _: NO_INSERTS

    viewed: Collection[str] | None = None
    # Other parameters of the page's address.
    parameters: Mapping[str, str] = MappingProxyType({})

    def view_address(self, view: str) -> str:
        return f"{self.address}?{urlencode({**self.parameters, 'view': view})}"

    @property
    def tree(self) -> Markup:
        return file_tree(self.view.files)


def shows_split(request: PageRequest) -> bool:
    """True if the address, or else the viewer's last choice, asks for two columns."""
    view = request.query_param("view") or read_cookie(request.http, request.settings, DIFF_VIEW)
    return view == "split"


def keep_view(request: PageRequest, response: Response) -> Response:
    """Pages of changes begin with the view that the viewer chose last."""
    view = request.query_param("view")
    if view in _VIEWS:
        set_cookie(response, request.settings, DIFF_VIEW, view, CHOICE_SECONDS)
    return response


def diff_page(
    request: PageRequest, view: DiffView, commits: CommitRange | None, path: str, file_path: str
) -> DiffPage:
    """`path` and `file_path` are those of the page and of one file. A stored diff needs no
    commits."""
    split = shows_split(request)
    ends = {} if commits is None else {"base": commits.base, "head": commits.head}
    paths = {file.index: file.path for file in view.files}

    def file_address(index: int) -> str:
        return f"{prefix}{file_path}?{urlencode({'path': paths[index], **ends, **chosen})}"

    prefix = request.settings.public_path
    chosen = {"view": "split"} if split else {}
    return DiffPage(view=view, address=f"{prefix}{path}", file_address=file_address, split=split)


async def load_diff(request: PageRequest, commits: CommitRange) -> DiffView:
    git_dir = find_git_dir(request, commits.repo_id)
    diff = await diff_between(git_dir, commits.base, commits.head)
    return await asyncio.to_thread(render_diff_view, diff)


async def show_file(
    request: PageRequest,
    repo_id: str,
    back: str,
    inserts: Callable[[FileView], Awaitable[Mapping[Place, Markup]]] | None = None,
) -> Response:
    """One file of a diff, as a page of its own or as a part of the diff page."""
    base, head = request.query_param("base"), request.query_param("head")
    # Not stripped: a file name may start or end with a space.
    path = request.http.query_params.get("path", "")
    if not (_COMMIT.fullmatch(base) and _COMMIT.fullmatch(head)) or "\0" in path:
        raise Problem("not_found", "There is no such file. Reload the page with the changes.")
    commits = CommitRange(repo_id, base, head)
    file = await _file(request, commits, path)
    return await file_page(request, file, back, await inserts(file) if inserts else NO_INSERTS)


async def file_page(
    request: PageRequest,
    file: FileView,
    back: str,
    inserts: Mapping[Place, Markup] = NO_INSERTS,
) -> Response:
    values: dict[str, Any] = {"file": file, "split": shows_split(request), "inserts": inserts}
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("changes/file_part.html", **values))
    return await request.render("changes/file.html", **values, back=back)


def find_git_dir(request: PageRequest, repo_id: str) -> Path:
    try:
        return present_path(request.settings.repositories_path, repo_id)
    except Problem as problem:
        raise hide_details(problem, repo_id) from None


def hide_details(problem: Problem, subject: str) -> Problem:
    """Hides the original message, which names paths on this host, and logs it for the operator."""
    _log.warning("cannot show %s: %s", subject, problem.message)
    return Problem(
        "repo_unavailable",
        "The files of this repository cannot be read at the moment. Contact the operator.",
    )


async def _file(request: PageRequest, commits: CommitRange, path: str) -> FileView:
    git_dir = find_git_dir(request, commits.repo_id)
    try:
        file = await file_diff_between(git_dir, commits.base, commits.head, path)
    except GitError as error:
        # Commits that git has removed since, or that never were.
        _log.warning("cannot show a file of %s: %s", commits.repo_id, error.reason)
        file = None
    if file is None:
        raise Problem("not_found", "The file was not changed. Reload the page with the changes.")
    return await asyncio.to_thread(render_file_view, file, 1)

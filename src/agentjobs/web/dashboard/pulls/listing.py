"""The pull requests of the organization or of one repository."""

import base64
import binascii
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.pulls.pulls import PullCursor, list_pulls
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.request_context import PageRequest

_PER_PAGE = 50
_STATES = ("open", "merged", "closed")


async def show_all(request: PageRequest) -> Response:
    return await _page(request, None, "/pulls")


async def show_of_repo(request: PageRequest) -> Response:
    full_name = request.path_param("full_name")
    return await _page(request, full_name, f"/{request.organization}/{full_name}/pulls")


async def _page(request: PageRequest, repo: str | None, page_path: str) -> Response:
    state = request.query_param("state") if request.query_param("state") in _STATES else None
    before = _decode_cursor(request.query_param("before"))
    try:
        pulls = await list_pulls(
            request.db, request.organization, repo, state=state, limit=_PER_PAGE + 1, before=before
        )
    except Problem:
        raise Problem(
            "repo_not_found", "No repository with this name is connected to your organization."
        ) from None
    shown = pulls[:_PER_PAGE]
    has_more = len(pulls) > _PER_PAGE
    return await request.render(
        "pulls/list.html",
        repo=repo,
        pulls=shown,
        page_path=page_path,
        state=state or "",
        states=_STATES,
        older=_address(request, page_path, state, _encode_cursor(shown[-1].cursor))
        if has_more
        else "",
        newest=_address(request, page_path, state) if before else "",
    )


def _address(request: PageRequest, page_path: str, state: str | None, before: str = "") -> str:
    parameters: dict[str, Any] = {"state": state, "before": before}
    query = {name: value for name, value in parameters.items() if value}
    return prefix_of(request.settings) + page_path + (f"?{urlencode(query)}" if query else "")


def _encode_cursor(cursor: PullCursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def _decode_cursor(text: str) -> PullCursor | None:
    """None, the start of the list, for an invalid cursor."""
    if not text or len(text) > 500:
        return None
    try:
        cursor = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        created_at, repo, number = msgspec.json.decode(cursor, type=PullCursor)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None
    is_valid = 0 <= created_at < 2**53 and 0 <= number < 2**53 and "\0" not in repo
    return (created_at, repo, number) if is_valid else None


ROUTES: Routes = [
    PageRoute("GET", "/pulls", "viewer", show_all),
    PageRoute("GET", f"/{{org}}/{REPO}/pulls", "viewer", show_of_repo, takes_keys=True),
]

"""Lists of pull requests: of the organization, or of one repository."""

import base64
import binascii
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.pulls.pulls import PullPlace, list_pulls
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.request_context import Visit

_PER_PAGE = 50
_STATES = ("open", "merged", "closed")


async def show_all(visit: Visit) -> Response:
    return await _page(visit, None, "/pulls")


async def show_of_repo(visit: Visit) -> Response:
    full_name = visit.path("full_name")
    return await _page(visit, full_name, f"/{visit.organization}/{full_name}/pulls")


async def _page(visit: Visit, repo: str | None, here: str) -> Response:
    state = visit.query("state") if visit.query("state") in _STATES else None
    before = _decoded(visit.query("before"))
    try:
        pulls = await list_pulls(
            visit.db, visit.organization, repo, state=state, limit=_PER_PAGE + 1, before=before
        )
    except Problem:
        raise Problem(
            "repo_not_found", "No repository of this name is connected to your organization."
        ) from None
    shown = pulls[:_PER_PAGE]
    more = len(pulls) > _PER_PAGE
    return await visit.page(
        "pulls/list.html",
        repo=repo,
        pulls=shown,
        here=here,
        state=state or "",
        states=_STATES,
        older=_address(visit, here, state, _encoded(shown[-1].place)) if more else "",
        newest=_address(visit, here, state) if before else "",
    )


def _address(visit: Visit, here: str, state: str | None, before: str = "") -> str:
    given: dict[str, Any] = {"state": state, "before": before}
    query = {name: value for name, value in given.items() if value}
    return prefix_of(visit.settings) + here + (f"?{urlencode(query)}" if query else "")


def _encoded(place: PullPlace) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(text: str) -> PullPlace | None:
    """None, the beginning, for whatever is no place in the list."""
    if not text or len(text) > 500:
        return None
    try:
        place = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        created_at, repo, number = msgspec.json.decode(place, type=PullPlace)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None
    is_sane = 0 <= created_at < 2**53 and 0 <= number < 2**53 and "\0" not in repo
    return (created_at, repo, number) if is_sane else None


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/pulls", "viewer", show_all),
    Place("GET", f"/{{org}}/{REPO}/pulls", "viewer", show_of_repo, takes_keys=True),
]

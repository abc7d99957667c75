"""The pull requests of the organization or of one repository."""

import base64
import binascii

import msgspec
from starlette.responses import Response

from agentjobs.jobs.views.pull_lines import (
    PullFilter,
    PullPage,
    list_pull_lines,
    recent_authors,
)
from agentjobs.organizations.authentication import SERVICE_ID
from agentjobs.pulls.pulls import PullCursor
from agentjobs.web.dashboard.live import live
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PER_PAGE = 50
_STATES = ("open", "merged", "closed")
_FIELDS = ("q", "repo", "author", "agent", "state")
_MAX_CHARACTERS = 320


async def show(request: PageRequest) -> Response:
    repo, filters = _repo(request), _read_filters(request)
    repo_choice = await load_repo_choice(request, repo or filters["repo"])
    if repo is not None and repo_choice.repo is None:
        raise Problem(
            "repo_not_found", "No repository with this name is connected to your organization."
        )
    before = _decode_cursor(request.query_param("before"))
    page = await _load(request, repo, filters, before)
    older = page.next_before and {**filters, "before": _encode_cursor(page.next_before)}
    authors = await recent_authors(request.db, request.organization_id)
    agents = sorted(agent.id for agent in request.context.catalog.all())
    return await request.render(
        "pulls/list.html",
        repo=repo,
        page=page,
        filters=filters,
        page_url=_address(request, {}),
        is_filtered=any(filters[name] for name in _FIELDS if name != "state"),
        older=_address(request, older) if older else "",
        newest=_address(request, filters) if before else "",
        states=[(state, _address(request, {**filters, "state": state})) for state in _STATES],
        all_states=_address(request, {**filters, "state": ""}),
        repo_choice=repo_choice,
        author_options=[
            ("", "anyone"),
            *(
                (author.id, "CVE fixes" if author.id == SERVICE_ID else author.name)
                for author in authors
            ),
        ],
        agent_options=[("", "any"), *((agent, agent) for agent in agents)],
    )


async def _load(
    request: PageRequest, repo: str | None, filters: dict[str, str], before: PullCursor | None
) -> PullPage:
    return await list_pull_lines(
        request.db,
        request.organization_id,
        request.organization,
        PullFilter(
            repo=repo or filters["repo"] or None,
            state=filters["state"] or None,
            text=filters["q"],
            author=filters["author"] or None,
            agent=filters["agent"] or None,
        ),
        limit=_PER_PAGE,
        before=before,
    )


def _repo(request: PageRequest) -> str | None:
    """The repository whose pull requests are shown; None for all."""
    return request.http.path_params.get("full_name")


def _read_filters(request: PageRequest) -> dict[str, str]:
    filters = {name: request.query_param(name)[:_MAX_CHARACTERS] for name in _FIELDS}
    if filters["state"] not in _STATES:
        filters["state"] = ""
    if _repo(request) is not None:
        filters["repo"] = ""
    return filters


def _address(request: PageRequest, query: dict[str, str]) -> str:
    repo = _repo(request)
    path = "/pulls" if repo is None else f"/{request.organization}/{repo}/pulls"
    return request.address(path, query)


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


_STREAM = live(show, "pulls/rows")
ROUTES: Routes = [
    PageRoute("GET", "/pulls", "viewer", show),
    PageRoute("GET", "/pulls/stream", "viewer", _STREAM),
    PageRoute("GET", f"/{{org}}/{REPO}/pulls", "viewer", show, takes_keys=True),
    PageRoute("GET", f"/{{org}}/{REPO}/pulls/stream", "viewer", _STREAM),
]

"""Settings > Platforms > one connection > Repositories: listing and connecting them."""

import asyncio

import msgspec
from starlette.responses import Response

from agentjobs.connections.hook_urls import reason_unreachable
from agentjobs.connections.repositories import (
    AvailableRepository,
    ConnectResult,
    connect_repositories,
    list_available,
)
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.platform import PATH, require_connection
from agentjobs.web.dashboard.settings.platform_access import (
    page_retry_budget,
    page_timeout,
    require_platforms,
)
from agentjobs.web.dashboard.text_filters import counted
from agentjobs_runtime.problems import Problem

# Repositories per form.
_MAX_SHOWN = 100
_MAX_QUERY_LENGTH = 300
_TIMEOUT_ADVICE = "You can still connect repositories by name, or try again later."
_ALL = "all"


class _Results(msgspec.Struct, frozen=True):
    """Names that were connected, and why others were not."""

    connected: list[str]
    not_connected: list[tuple[str, str]]


async def connect(request: PageRequest) -> Response:
    connection = await require_connection(request)
    names = _names(request)
    if not names and not request.form.flag(_ALL):
        raise Problem("invalid_name", "Select repositories or enter their names.")
    async with page_timeout(connection.name, "Some may be connected already; see Repositories."):
        connected = await connect_repositories(
            request.db,
            require_platforms(request),
            request.organization,
            connection.id,
            names or None,
            page_retry_budget(),
            public_url=request.settings.effective_public_url,
            with_hooks=False if request.form.flag("no_webhooks") else None,
        )
    results = _results(connected, is_all=not names)
    if not results.not_connected:
        banner = f"{counted(len(results.connected), 'repository', 'repositories')} connected."
        return request.redirect(f"{PATH}/{connection.id}", banner=f"{banner} Fetching has started.")
    return await show(request, results=results)


def _names(request: PageRequest) -> list[str]:
    entered = request.form.raw("names").replace(",", " ").split()
    return list(dict.fromkeys([*request.form.all("repo"), *entered]))


def _results(results: list[ConnectResult], *, is_all: bool) -> _Results:
    """When connecting all repositories, those already connected are not errors."""
    not_connected = [
        (result.full_name, result.problem.message)
        for result in results
        if result.problem is not None and not (is_all and result.problem.code == "repo_connected")
    ]
    return _Results(
        [result.full_name for result in results if result.problem is None], not_connected
    )


async def show(
    request: PageRequest, problem: Problem | None = None, *, results: _Results | None = None
) -> Response:
    connection = await require_connection(request)
    query = request.query_param("q")[:_MAX_QUERY_LENGTH]
    listing_problem: Problem | None = None
    available: list[AvailableRepository] = []
    try:
        if problem is not None and problem.code == "forge_unavailable":
            # Do not wait for the same timeout twice.
            raise problem
        available = await _list_available(request, connection.id, connection.name)
    except Problem as error:
        listing_problem = error
    matches = await asyncio.to_thread(_matching, available, query)
    return await request.render(
        "settings/platform_repositories.html",
        # A form's own error takes precedence over the listing's.
        problem=problem or listing_problem,
        connection=connection,
        page_path=f"{PATH}/{connection.id}",
        unreachable=reason_unreachable(request.settings.effective_public_url, connection.url),
        query=query,
        repositories=matches[:_MAX_SHOWN],
        total=len(available),
        match_count=len(matches),
        connectable=sum(
            not repository.connected_as and not repository.problem for repository in available
        ),
        is_listed=listing_problem is None,
        results=results,
        names=request.form.raw("names") if problem else "",
    )


async def _list_available(
    request: PageRequest, connection_id: str, name: str
) -> list[AvailableRepository]:
    async with page_timeout(name, _TIMEOUT_ADVICE):
        return await list_available(
            request.db,
            require_platforms(request),
            request.organization,
            connection_id,
            page_retry_budget(),
        )


def _matching(available: list[AvailableRepository], query: str) -> list[AvailableRepository]:
    """Repositories that can be connected come first."""
    terms = query.casefold().split()
    matches = [
        repository
        for repository in available
        if all(term in repository.remote.full_name.casefold() for term in terms)
    ]
    return sorted(
        matches, key=lambda repository: (bool(repository.connected_as), bool(repository.problem))
    )


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/{{id}}/repositories", "member", show),
    PageRoute("POST", f"{PATH}/{{id}}/repositories", "admin", connect, problem_page=show),
]

"""Settings > Platforms > one of them > Repositories: what it shows us, and connecting that."""

import asyncio

import msgspec
from starlette.responses import Response

from agentjobs.connections.repositories import (
    AvailableRepository,
    ConnectResult,
    connect_repositories,
    list_available,
)
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.forge import HERE, connection_of
from agentjobs.web.dashboard.settings.forge_text import for_people
from agentjobs.web.dashboard.settings.platform_access import in_time, persons_patience, platforms_of
from agentjobs.web.dashboard.text_filters import counted

# As many as fit into one form.
_SHOWN = 100
_MOST_QUERY = 300
_TOO_SLOW = "Repositories can be connected by their names all the same, or try again in a while."
_ALL = "all"


class _Results(msgspec.Struct, frozen=True):
    """What became of the form: names that are connected now, and why others are not."""

    connected: list[str]
    refused: list[tuple[str, str]]


async def show(request: PageRequest) -> Response:
    return await _page(request)


async def connect(request: PageRequest) -> Response:
    connection = await connection_of(request)
    names = _names(request)
    try:
        if not names and not request.form.flag(_ALL):
            raise Problem("invalid_name", "Choose repositories, or write their names.")
        async with in_time(connection.name, "Some may be connected; Repositories shows which."):
            found = await connect_repositories(
                request.db,
                platforms_of(request),
                request.organization,
                connection.id,
                names or None,
                persons_patience(),
            )
    except Problem as problem:
        return await _page(request, problem=for_people(problem), typed=request.form.raw("typed"))
    results = _results(found, is_all=not names)
    if not results.refused:
        banner = f"{counted(len(results.connected), 'repository', 'repositories')} connected."
        return request.redirect(f"{HERE}/{connection.id}", banner=f"{banner} They are fetched now.")
    return await _page(request, results=results)


def _names(request: PageRequest) -> list[str]:
    typed = request.form.raw("typed").replace(",", " ").split()
    return list(dict.fromkeys([*request.form.all("repo"), *typed]))


def _results(found: list[ConnectResult], *, is_all: bool) -> _Results:
    """Of all that there are, those that were connected before are nothing to speak of."""
    refused = [
        (each.full_name, each.problem.message)
        for each in found
        if each.problem is not None and not (is_all and each.problem.code == "repo_connected")
    ]
    return _Results([each.full_name for each in found if each.problem is None], refused)


async def _page(
    request: PageRequest,
    problem: Problem | None = None,
    *,
    results: _Results | None = None,
    typed: str = "",
) -> Response:
    connection = await connection_of(request)
    query = request.query_param("q")[:_MOST_QUERY]
    trouble: Problem | None = None
    seen: list[AvailableRepository] = []
    try:
        if problem is not None and problem.code == "forge_unavailable":
            # Nobody shall wait for the same thing twice.
            raise problem
        seen = await _seen(request, connection.id, connection.name)
    except Problem as error:
        trouble = for_people(error)
    wanted = await asyncio.to_thread(_matching, seen, query)
    return await request.render(
        "settings/forge_repositories.html",
        # Who came to look is told why there is nothing to see; a form's own refusal goes first.
        problem=problem or trouble,
        connection=connection,
        here=f"{HERE}/{connection.id}",
        query=query,
        seen=wanted[:_SHOWN],
        total=len(seen),
        found=len(wanted),
        connectable=sum(not each.connected_as and not each.problem for each in seen),
        is_known=trouble is None,
        results=results,
        typed=typed,
    )


async def _seen(request: PageRequest, connection_id: str, name: str) -> list[AvailableRepository]:
    async with in_time(name, _TOO_SLOW):
        return await list_available(
            request.db,
            platforms_of(request),
            request.organization,
            connection_id,
            persons_patience(),
        )


def _matching(seen: list[AvailableRepository], query: str) -> list[AvailableRepository]:
    """What can be connected first."""
    words = query.casefold().split()
    found = [one for one in seen if all(word in one.seen.full_name.casefold() for word in words)]
    return sorted(found, key=lambda one: (bool(one.connected_as), bool(one.problem)))


ROUTES: Routes = [
    PageRoute("GET", f"{HERE}/{{id}}/repositories", "member", show),
    PageRoute("POST", f"{HERE}/{{id}}/repositories", "admin", connect),
]

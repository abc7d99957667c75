"""/repos/{full_name}/graph: the neighbors of a module or package in the dependency graph."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, advisories_of
from agentjobs.inventory.dependencies import DependencyView, list_dependencies
from agentjobs.inventory.graph.views import Module, find_neighborhood, most_imported, search_modules
from agentjobs.inventory.model import ModuleGraph
from agentjobs.inventory.package_neighbors import find_package_neighbors
from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.plots.graph import Node
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.graph_cache import shared_cache
from agentjobs.web.dashboard.repos.graph_views import (
    address_of_module,
    address_of_package,
    module_view,
    package_view,
)
from agentjobs.web.dashboard.repos.lookup import require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted

_MAX_LISTED = 500
_MOST_IMPORTED = 15
_MAX_RESULTS = 50
_MAX_NAME_LENGTH = 4_096


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The query: a file, an external module, a package, or a search."""

    node: str = ""
    external: str = ""
    ecosystem: str = ""
    package: str = ""
    q: str = ""


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    asked = _query(request)
    if asked.package:
        return await _package_page(request, repo, asked)
    graph = await shared_cache().load(request.db, repo.id)
    if graph is None:
        return await _page(request, repo, asked)
    if asked.node or asked.external:
        return await _module_page(request, repo, asked, graph)
    if asked.q:
        return await _results_page(request, repo, asked, graph)
    return await _page(request, repo, asked, **await _overview(request, repo, graph))


async def _module_page(
    request: PageRequest, repo: RepoView, asked: _Query, graph: ModuleGraph
) -> Response:
    name, external = asked.node or asked.external, not asked.node
    neighbors = await asyncio.to_thread(
        find_neighborhood, graph, name, external=external, limit=_MAX_LISTED
    )
    if neighbors is None:
        problem = Problem("not_found", "The indexed commit has no module with this name.")
        overview = await _overview(request, repo, graph)
        return await _page(request, repo, asked, problem=problem, **overview)
    view = await asyncio.to_thread(module_view, _path(request, repo), neighbors)
    return await _page(request, repo, asked, view=view)


async def _package_page(request: PageRequest, repo: RepoView, asked: _Query) -> Response:
    neighbors = await find_package_neighbors(request.db, repo.id, asked.ecosystem, asked.package)
    if neighbors is None:
        problem = Problem("not_found", "The indexed commit does not depend on this package.")
        return await _page(request, repo, asked, problem=problem)
    rows = (*neighbors.itself, *neighbors.dependencies)
    known = await advisories_of(request.db, repo.id, rows)
    vulnerable = frozenset(one.name for one in rows if one.position in known)
    path = _path(request, repo)
    view = await asyncio.to_thread(
        package_view, path, asked.ecosystem, asked.package, neighbors, vulnerable
    )
    itself = [(one, known.get(one.position, [])) for one in neighbors.itself]
    return await _page(request, repo, asked, view=view, itself=itself[:_MAX_RESULTS])


async def _results_page(
    request: PageRequest, repo: RepoView, asked: _Query, graph: ModuleGraph
) -> Response:
    path = _path(request, repo)
    modules = await asyncio.to_thread(search_modules, graph, asked.q, limit=_MAX_RESULTS)
    packages = await list_dependencies(request.db, repo.id, search=asked.q, limit=10 * _MAX_RESULTS)
    names = dict.fromkeys((one.ecosystem, one.name) for one in packages)
    results = [
        *_modules(path, modules),
        *(Node(name, address_of_package(path, eco, name), note=eco) for eco, name in names),
    ]
    return await _page(request, repo, asked, results=results[: 2 * _MAX_RESULTS])


async def _overview(request: PageRequest, repo: RepoView, graph: ModuleGraph) -> dict[str, Any]:
    """The most imported modules, as starting points."""
    path = _path(request, repo)
    files = await asyncio.to_thread(most_imported, graph, _MOST_IMPORTED)
    others = await asyncio.to_thread(most_imported, graph, _MOST_IMPORTED, external=True)
    return {
        "graph": {
            "files": len(graph.files),
            "edges": len(graph.edges),
            "externals": len(graph.externals),
        },
        "most": [
            ("Most imported files", _modules(path, files)),
            ("Most imported external modules", _modules(path, others)),
        ],
    }


async def _page(
    request: PageRequest,
    repo: RepoView,
    asked: _Query,
    *,
    problem: Problem | None = None,
    **shown: Any,
) -> Response:
    itself: list[tuple[DependencyView, list[DependencyAdvisory]]] = []
    values = {"view": None, "results": None, "graph": None, "most": [], "itself": itself, **shown}
    return await request.render(
        "repos/graph.html", problem=problem, repo=repo, asked=asked, **values
    )


def _query(request: PageRequest) -> _Query:
    """Names are not stripped: a file name may start with a space."""
    parameters = request.http.query_params
    names = ("node", "external", "ecosystem", "package")
    values = {name: parameters.get(name, "").replace("\0", "")[:_MAX_NAME_LENGTH] for name in names}
    return _Query(**values, q=request.query_param("q")[:300])


def _path(request: PageRequest, repo: RepoView) -> str:
    return f"{prefix_of(request.settings)}/repos/{repo.full_name}/graph"


def _modules(path: str, modules: list[Module]) -> list[Node]:
    return [
        Node(
            one.name,
            address_of_module(path, one.name, external=one.external),
            "external" if one.external else "plain",
            f"imported by {counted(one.importers, 'file')}",
        )
        for one in modules
    ]


ROUTES: Routes = [repo_page_route("graph", show)]

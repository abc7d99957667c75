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
_IMPORTED_SHOWN = 15
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
    query = _query(request)
    if query.package:
        return await _package_page(request, repo, query)
    graph = await shared_cache().load(request.db, repo.id)
    if graph is None:
        return await _page(request, repo, query)
    if query.node or query.external:
        return await _module_page(request, repo, query, graph)
    if query.q:
        return await _results_page(request, repo, query, graph)
    return await _page(request, repo, query, **await _overview(request, repo, graph))


async def _module_page(
    request: PageRequest, repo: RepoView, query: _Query, graph: ModuleGraph
) -> Response:
    name, external = query.node or query.external, not query.node
    neighbors = await asyncio.to_thread(
        find_neighborhood, graph, name, external=external, limit=_MAX_LISTED
    )
    if neighbors is None:
        problem = Problem("not_found", "The indexed commit has no module with this name.")
        overview = await _overview(request, repo, graph)
        return await _page(request, repo, query, problem=problem, **overview)
    view = await asyncio.to_thread(module_view, _path(request, repo), neighbors)
    return await _page(request, repo, query, view=view)


async def _package_page(request: PageRequest, repo: RepoView, query: _Query) -> Response:
    neighbors = await find_package_neighbors(request.db, repo.id, query.ecosystem, query.package)
    if neighbors is None:
        problem = Problem("not_found", "The indexed commit does not depend on this package.")
        return await _page(request, repo, query, problem=problem)
    rows = (*neighbors.package_rows, *neighbors.dependencies)
    known = await advisories_of(request.db, repo.id, rows)
    vulnerable = frozenset(dependency.name for dependency in rows if dependency.position in known)
    path = _path(request, repo)
    view = await asyncio.to_thread(
        package_view, path, query.ecosystem, query.package, neighbors, vulnerable
    )
    package_rows = [
        (dependency, known.get(dependency.position, [])) for dependency in neighbors.package_rows
    ]
    return await _page(request, repo, query, view=view, package_rows=package_rows[:_MAX_RESULTS])


async def _results_page(
    request: PageRequest, repo: RepoView, query: _Query, graph: ModuleGraph
) -> Response:
    path = _path(request, repo)
    modules = await asyncio.to_thread(search_modules, graph, query.q, limit=_MAX_RESULTS)
    packages = await list_dependencies(request.db, repo.id, search=query.q, limit=10 * _MAX_RESULTS)
    names = dict.fromkeys((dependency.ecosystem, dependency.name) for dependency in packages)
    results = [
        *_modules(path, modules),
        *(Node(name, address_of_package(path, eco, name), note=eco) for eco, name in names),
    ]
    return await _page(request, repo, query, results=results[: 2 * _MAX_RESULTS])


async def _overview(request: PageRequest, repo: RepoView, graph: ModuleGraph) -> dict[str, Any]:
    """The most imported modules, as starting points."""
    path = _path(request, repo)
    files = await asyncio.to_thread(most_imported, graph, _IMPORTED_SHOWN)
    others = await asyncio.to_thread(most_imported, graph, _IMPORTED_SHOWN, external=True)
    return {
        "graph": {
            "files": len(graph.files),
            "edges": len(graph.edges),
            "externals": len(graph.externals),
        },
        "most_imported": [
            ("Most imported files", _modules(path, files)),
            ("Most imported external modules", _modules(path, others)),
        ],
    }


async def _page(
    request: PageRequest,
    repo: RepoView,
    query: _Query,
    *,
    problem: Problem | None = None,
    **template_values: Any,
) -> Response:
    no_rows: list[tuple[DependencyView, list[DependencyAdvisory]]] = []
    values = {
        "view": None,
        "results": None,
        "graph": None,
        "most_imported": [],
        "package_rows": no_rows,
        **template_values,
    }
    return await request.render(
        "repos/graph.html", problem=problem, repo=repo, query=query, **values
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
            module.name,
            address_of_module(path, module.name, external=module.external),
            "external" if module.external else "plain",
            f"imported by {counted(module.importers, 'file')}",
        )
        for module in modules
    ]


ROUTES: Routes = [repo_page_route("graph", show)]

"""/repos/{full_name}/graph: what imports what, which package asks for which; place by place."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, advisories_of
from agentjobs.inventory.dependencies import DependencyView, list_dependencies
from agentjobs.inventory.graph_views import Module, around, most_imported, search_modules
from agentjobs.inventory.model import ModuleGraph
from agentjobs.inventory.package_neighbors import package_neighbours
from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.plots.graph import Node
from agentjobs.web.dashboard.repos.detail import page_of_repo
from agentjobs.web.dashboard.repos.graph_cache import shared
from agentjobs.web.dashboard.repos.graph_views import (
    address_of_module,
    address_of_package,
    module_view,
    package_view,
)
from agentjobs.web.dashboard.repos.lookup import repo_of
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted

_LISTED = 500
_MOST_IMPORTED = 15
_FOUND = 50
_LONGEST_NAME = 4_096


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the address asks for: a file, a name from elsewhere, a package, or a search."""

    node: str = ""
    external: str = ""
    ecosystem: str = ""
    package: str = ""
    q: str = ""


async def show(request: PageRequest) -> Response:
    repo = await repo_of(request)
    asked = _asked(request)
    if asked.package:
        return await _package_page(request, repo, asked)
    graph = await shared().load(request.db, repo.id)
    if graph is None:
        return await _page(request, repo, asked)
    if asked.node or asked.external:
        return await _module_page(request, repo, asked, graph)
    if asked.q:
        return await _results_page(request, repo, asked, graph)
    return await _page(request, repo, asked, **await _overview(request, repo, graph))


async def _module_page(
    request: PageRequest, repo: RepoView, asked: _Asked, graph: ModuleGraph
) -> Response:
    name, external = asked.node or asked.external, not asked.node
    found = await asyncio.to_thread(around, graph, name, external=external, most=_LISTED)
    if found is None:
        problem = Problem("not_found", "The indexed commit has no module of this name.")
        overview = await _overview(request, repo, graph)
        return await _page(request, repo, asked, problem=problem, **overview)
    view = await asyncio.to_thread(module_view, _here(request, repo), found)
    return await _page(request, repo, asked, view=view)


async def _package_page(request: PageRequest, repo: RepoView, asked: _Asked) -> Response:
    found = await package_neighbours(request.db, repo.id, asked.ecosystem, asked.package)
    if found is None:
        problem = Problem("not_found", "No manifest of the indexed commit leads to this package.")
        return await _page(request, repo, asked, problem=problem)
    rows = (*found.itself, *found.asked)
    known = await advisories_of(request.db, repo.id, rows)
    bad = frozenset(one.name for one in rows if one.position in known)
    here = _here(request, repo)
    view = await asyncio.to_thread(package_view, here, asked.ecosystem, asked.package, found, bad)
    itself = [(one, known.get(one.position, [])) for one in found.itself]
    return await _page(request, repo, asked, view=view, itself=itself[:_FOUND])


async def _results_page(
    request: PageRequest, repo: RepoView, asked: _Asked, graph: ModuleGraph
) -> Response:
    here = _here(request, repo)
    modules = await asyncio.to_thread(search_modules, graph, asked.q, most=_FOUND)
    packages = await list_dependencies(request.db, repo.id, search=asked.q, limit=10 * _FOUND)
    named = dict.fromkeys((one.ecosystem, one.name) for one in packages)
    results = [
        *_modules(here, modules),
        *(Node(name, address_of_package(here, eco, name), note=eco) for eco, name in named),
    ]
    return await _page(request, repo, asked, results=results[: 2 * _FOUND])


async def _overview(request: PageRequest, repo: RepoView, graph: ModuleGraph) -> dict[str, Any]:
    """What is imported most: where somebody who knows nothing yet begins."""
    here = _here(request, repo)
    files = await asyncio.to_thread(most_imported, graph, _MOST_IMPORTED)
    others = await asyncio.to_thread(most_imported, graph, _MOST_IMPORTED, external=True)
    return {
        "graph": {
            "files": len(graph.files),
            "edges": len(graph.edges),
            "externals": len(graph.externals),
        },
        "most": [
            ("Files that are imported most", _modules(here, files)),
            ("Names from elsewhere that are imported most", _modules(here, others)),
        ],
    }


async def _page(
    request: PageRequest,
    repo: RepoView,
    asked: _Asked,
    *,
    problem: Problem | None = None,
    **shown: Any,
) -> Response:
    itself: list[tuple[DependencyView, list[DependencyAdvisory]]] = []
    values = {"view": None, "results": None, "graph": None, "most": [], "itself": itself, **shown}
    return await request.render(
        "repos/graph.html", problem=problem, repo=repo, asked=asked, **values
    )


def _asked(request: PageRequest) -> _Asked:
    """Names as they are: a file may begin with a space."""
    given = request.http.query_params
    names = ("node", "external", "ecosystem", "package")
    kept = {name: given.get(name, "").replace("\0", "")[:_LONGEST_NAME] for name in names}
    return _Asked(**kept, q=request.query_param("q")[:300])


def _here(request: PageRequest, repo: RepoView) -> str:
    return f"{prefix_of(request.settings)}/repos/{repo.full_name}/graph"


def _modules(here: str, modules: list[Module]) -> list[Node]:
    return [
        Node(
            one.name,
            address_of_module(here, one.name, external=one.external),
            "external" if one.external else "plain",
            f"imported by {counted(one.importers, 'file')}",
        )
        for one in modules
    ]


ROUTES: Routes = [page_of_repo("graph", show)]

"""/repos/{full_name}/graph: a map of the repository, or the neighbors of a module or package."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, advisories_of
from agentjobs.inventory.dependencies import DependencyView, list_dependencies
from agentjobs.inventory.graph.folders import files_in, search_folders
from agentjobs.inventory.graph.package_map import (
    MAX_HOPS,
    ExternalNames,
    find_externals,
    map_external,
    map_folder,
    map_neighborhood,
)
from agentjobs.inventory.graph.stored import load_graph
from agentjobs.inventory.graph.views import (
    Module,
    Neighbors,
    find_neighbors,
    most_imported,
    search_modules,
)
from agentjobs.inventory.model import ModuleGraph
from agentjobs.inventory.package_neighbors import find_package_neighbors
from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.graph_maps import (
    MapView,
    address,
    list_external_names,
    list_folders,
    view_map,
)
from agentjobs.web.dashboard.repos.graph_views import (
    MAX_LISTED,
    Node,
    NodeList,
    address_of_module,
    address_of_package,
    list_neighbors,
    package_view,
)
from agentjobs.web.dashboard.repos.lookup import require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted

_IMPORTED_SHOWN = 15
_MAX_RESULTS, _MAX_FOLDERS = 50, 10
_MAX_NAME_LENGTH = 4_096


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The query: a folder, a file or folder in focus, an external module, the external modules of
    an ecosystem, a package, or a search."""

    folder: str = ""
    focus: str = ""
    external: str = ""
    ecosystem: str = ""
    package: str = ""
    hops: int = 1
    standard: bool = False
    q: str = ""

    def kept(self) -> dict[str, str]:
        """What links to other maps keep."""
        kept = {"folder": self.folder} if self.folder else {}
        kept |= {"hops": str(self.hops)} if self.hops > 1 else {}
        return kept | ({"standard": "1"} if self.standard else {})


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    query = _query(request)
    if query.package:
        return await _package_page(request, repo, query)
    graph = await load_graph(request.db, repo.id)
    if graph is None:
        return await _page(request, repo, query)
    if query.q:
        return await _results_page(request, repo, query, graph)
    if query.focus or query.external:
        return await _focus_page(request, repo, query, graph)
    if query.ecosystem:
        return await _externals_page(request, repo, query, graph)
    return await _folder_page(request, repo, query, graph)


async def _folder_page(
    request: PageRequest,
    repo: RepoView,
    query: _Query,
    graph: ModuleGraph,
    problem: Problem | None = None,
) -> Response:
    values = await asyncio.to_thread(_folder_values, _path(request, repo), query, graph)
    if values is None and query.folder:
        return await _missing(request, repo, query, graph, "folder")
    values = values or {}
    return await _page(request, repo, query, problem=problem, has_graph=True, **values)


def _folder_values(path: str, query: _Query, graph: ModuleGraph) -> dict[str, Any] | None:
    package_map = map_folder(graph, query.folder, standard=query.standard)
    if package_map is None:
        return None
    title = f"Folders and files of {query.folder or 'the repository'}, and their imports"
    kept = query.kept()
    values: dict[str, Any] = {
        "map": view_map(path, package_map, title, kept),
        "crumbs": list_folders(path, query.folder, kept),
    }
    if query.folder:
        focus = address(path, kept, folder="", focus=query.folder)
        return values | {"kind": "folder", "other_maps": [("Show neighbors", focus)]}
    return values | {
        "summary": f"{counted(len(graph.files), 'file')} with"
        f" {counted(len(graph.edges), 'import')} between them, and"
        f" {counted(len(graph.externals), 'external name')}.",
        "lists": _most_imported(path, query, graph),
    }


def _most_imported(path: str, query: _Query, graph: ModuleGraph) -> list[NodeList]:
    """Starting points."""
    files = most_imported(graph, _IMPORTED_SHOWN)
    names = most_imported(graph, len(graph.externals), external=True)
    if not query.standard:
        standard = _standard_names(graph)
        names = [module for module in names if module.name not in standard]
    lists = (
        ("files", "Most imported files", files),
        ("names", "Most imported external modules", names[:_IMPORTED_SHOWN]),
    )
    return [
        NodeList(id_, title, tuple(_modules(path, modules)), len(modules), "None.")
        for id_, title, modules in lists
    ]


def _standard_names(graph: ModuleGraph) -> set[str]:
    groups = find_externals(graph).values()
    return {name for group in groups if group.standard for name in group.importers}


def _find_neighbors(query: _Query, graph: ModuleGraph) -> Neighbors | None:
    """Without modules of the standard library, unless they are shown; None for a folder."""
    name, external = query.focus or query.external, not query.focus
    neighbors = find_neighbors(graph, name, external=external)
    if neighbors is None or query.standard:
        return neighbors
    standard = _standard_names(graph)
    shown = tuple(name for name in neighbors.externals if name not in standard)
    return msgspec.structs.replace(neighbors, externals=shown)


async def _focus_page(
    request: PageRequest, repo: RepoView, query: _Query, graph: ModuleGraph
) -> Response:
    path = _path(request, repo)
    view = await asyncio.to_thread(_focus_map, path, query, graph)
    if view is None:
        return await _missing(request, repo, query, graph, "module")
    name, external = query.focus or query.external, not query.focus
    neighbors = await asyncio.to_thread(_find_neighbors, query, graph)
    lists = () if neighbors is None else list_neighbors(path, neighbors, external=external)
    kept = query.kept() | {"external" if external else "focus": name}
    hops = [
        (counted(number, "step"), address(path, kept, hops=str(number)), number == query.hops)
        for number in range(1, MAX_HOPS + 1)
    ]
    is_folder = neighbors is None
    opened = address(path, kept, focus="", hops="", folder=name)
    dependencies = address(f"{path.removesuffix('/graph')}/dependencies", {}, q=name)
    return await _page(
        request,
        repo,
        query,
        map=view,
        lists=lists,
        hops=hops,
        crumbs=[("Repository", path), (name, "")] if external else list_folders(path, name, kept),
        kind="external module" if external else "folder" if is_folder else "module",
        other_maps=[("Open folder", opened)] * is_folder
        + [("View in dependencies", dependencies)] * external,
    )


def _focus_map(path: str, query: _Query, graph: ModuleGraph) -> MapView | None:
    name = query.focus or query.external
    if query.focus:
        package_map = map_neighborhood(graph, name, query.hops, standard=query.standard)
    else:
        package_map = map_external(graph, name, query.hops)
    title = f"What imports {name}, and its imports"
    return None if package_map is None else view_map(path, package_map, title, query.kept())


async def _externals_page(
    request: PageRequest, repo: RepoView, query: _Query, graph: ModuleGraph
) -> Response:
    groups = await asyncio.to_thread(_find_groups, query, graph)
    if not groups:
        return await _missing(request, repo, query, graph, "external module")
    names = list_external_names(_path(request, repo), groups, MAX_LISTED)
    return await _page(request, repo, query, results=names, results_title=groups[0].name)


def _find_groups(query: _Query, graph: ModuleGraph) -> list[ExternalNames]:
    externals = find_externals(graph, set(files_in(graph.files, query.folder)))
    return [
        group
        for group in externals.values()
        if (group.ecosystem, group.standard) == (query.ecosystem, query.standard)
    ]


async def _missing(
    request: PageRequest, repo: RepoView, query: _Query, graph: ModuleGraph, kind: str
) -> Response:
    """The whole repository instead."""
    problem = Problem("not_found", f"The indexed commit has no {kind} with this name.")
    query = _Query(standard=query.standard)
    return await _folder_page(request, repo, query, graph, problem)


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
    folders = await asyncio.to_thread(search_folders, graph.files, query.q, _MAX_FOLDERS)
    modules = await asyncio.to_thread(search_modules, graph, query.q, limit=_MAX_RESULTS)
    packages = await list_dependencies(request.db, repo.id, search=query.q, limit=10 * _MAX_RESULTS)
    names = dict.fromkeys((dependency.ecosystem, dependency.name) for dependency in packages)
    results = [
        *(
            Node(f"{folder}/", address(path, {}, folder=folder), note=counted(number, "file"))
            for folder, number in folders.items()
        ),
        *_modules(path, modules),
        *(Node(name, address_of_package(path, eco, name), note=eco) for eco, name in names),
    ]
    return await _page(request, repo, query, results=results[: 2 * _MAX_RESULTS])


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
        "map": None,
        "lists": (),
        "crumbs": [],
        "hops": [],
        "other_maps": [],
        "kind": "",
        "summary": "",
        "results_title": "",
        "has_graph": False,
        "package_rows": no_rows,
        **template_values,
    }
    return await request.render(
        "repos/graph.html", problem=problem, repo=repo, query=query, **values
    )


def _query(request: PageRequest) -> _Query:
    """Names are not stripped: a file name may start with a space."""
    parameters = request.http.query_params

    def name(parameter: str) -> str:
        return parameters.get(parameter, "").replace("\0", "")[:_MAX_NAME_LENGTH]

    hops = parameters.get("hops", "")
    return _Query(
        folder=name("folder").rstrip("/"),
        # Older links have `node`.
        focus=name("focus") or name("node"),
        external=name("external"),
        ecosystem=name("ecosystem"),
        package=name("package"),
        hops=min(max(int(hops), 1), MAX_HOPS) if hops.isdecimal() and len(hops) < 9 else 1,
        standard=parameters.get("standard") == "1",
        q=request.query_param("q")[:300],
    )


def _path(request: PageRequest, repo: RepoView) -> str:
    return f"{prefix_of(request.settings)}/repos/{repo.full_name}/graph"


def _modules(path: str, modules: list[Module]) -> list[Node]:
    return [
        Node(
            module.name,
            address_of_module(path, module.name, external=module.external),
            f"imported by {counted(module.importers, 'file')}",
        )
        for module in modules
    ]


ROUTES: Routes = [repo_page_route("graph", show)]

"""/repos/{full_name}/graph: a map of the repository, or the neighbors of a module."""

import asyncio
import heapq
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.inventory.stored_graph import load_graph
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.graph_maps import list_folders, view_map
from agentjobs.web.dashboard.repos.graph_views import (
    Node,
    NodeList,
    address,
    address_of_module,
    list_neighbors,
)
from agentjobs.web.dashboard.repos.lookup import require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted
from agentjobs_dependencies.graph.folders import search_folders
from agentjobs_dependencies.graph.package_map import count_external_names, map_folder
from agentjobs_dependencies.graph.views import Module, find_neighbors, most_imported, search_modules
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_runtime.problems import Problem

_IMPORTED_SHOWN = 15
_MAX_RESULTS, _MAX_FOLDERS = 50, 10
_MAX_NAME_LENGTH = 4_096


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The query: a folder, a file in focus, an external module, or a search."""

    folder: str = ""
    focus: str = ""
    external: str = ""
    q: str = ""


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    query = _query(request)
    graph = await load_graph(request.db, repo.id)
    if graph is None:
        return await _page(request, repo, query)
    path = f"{request.settings.public_path}/repos/{repo.full_name}/graph"
    values = await asyncio.to_thread(_values, path, query, graph)
    if values is None:
        problem = Problem("not_found", "The indexed commit has no folder or module of this name.")
        # The whole repository instead.
        values = await asyncio.to_thread(_folder_values, path, "", graph)
        return await _page(request, repo, _Query(), problem, has_graph=True, **values or {})
    return await _page(request, repo, query, has_graph=True, **values)


def _values(path: str, query: _Query, graph: ModuleGraph) -> dict[str, Any] | None:
    """What the template shows; None if the graph has no such folder or module."""
    if query.q:
        return {"results": _search(path, query.q, graph)}
    if query.focus or query.external:
        return _module_values(path, query, graph)
    values = _folder_values(path, query.folder, graph)
    return {} if values is None and not query.folder else values


def _folder_values(path: str, folder: str, graph: ModuleGraph) -> dict[str, Any] | None:
    package_map = map_folder(graph, folder)
    if package_map is None:
        return None
    title = f"Folders and files of {folder or 'the repository'}, and their imports"
    values = {"map": view_map(path, package_map, title), "crumbs": list_folders(path, folder)}
    if folder:
        return values
    return values | {
        "summary": f"{counted(len(graph.files), 'file')} with"
        f" {counted(len(graph.edges), 'import')} between them, and"
        f" {counted(len(graph.externals), 'external name')}.",
        "lists": _most_imported(path, graph),
    }


def _most_imported(path: str, graph: ModuleGraph) -> list[NodeList]:
    """Starting points."""
    counts = count_external_names(graph)
    names = heapq.nsmallest(_IMPORTED_SHOWN, counts, key=lambda name: (-counts[name], name))
    lists = (
        ("files", "Most imported files", most_imported(graph, _IMPORTED_SHOWN)),
        (
            "names",
            "Most imported external modules",
            [Module(name, True, counts[name]) for name in names],
        ),
    )
    return [
        NodeList(id_, title, tuple(_modules(path, modules)), len(modules), "None.")
        for id_, title, modules in lists
    ]


def _module_values(path: str, query: _Query, graph: ModuleGraph) -> dict[str, Any] | None:
    name, external = query.focus or query.external, not query.focus
    neighbors = find_neighbors(graph, name, external=external)
    if neighbors is None:
        return None
    return {
        "name": name,
        "crumbs": [("Repository", path), (name, "")] if external else list_folders(path, name),
        "lists": list_neighbors(path, neighbors, external=external),
        "dependencies": address(f"{path.removesuffix('/graph')}/dependencies", q=name)
        if external
        else "",
    }


def _search(path: str, text: str, graph: ModuleGraph) -> list[Node]:
    folders = search_folders(graph.files, text, _MAX_FOLDERS)
    return [
        *(
            Node(f"{folder}/", address(path, folder=folder), counted(number, "file"))
            for folder, number in folders.items()
        ),
        *_modules(path, search_modules(graph, text, limit=_MAX_RESULTS)),
    ]


async def _page(
    request: PageRequest,
    repo: RepoView,
    query: _Query,
    problem: Problem | None = None,
    **template_values: Any,
) -> Response:
    values = {
        "results": None,
        "map": None,
        "name": query.folder,
        "lists": (),
        "crumbs": [],
        "summary": "",
        "dependencies": "",
        "has_graph": False,
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

    return _Query(
        folder=name("folder").rstrip("/"),
        # Older links have `node`.
        focus=name("focus") or name("node"),
        external=name("external"),
        q=request.query_param("q")[:300],
    )


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

"""Turns the neighbors of a module or package into a picture and lists. Pure functions."""

from collections.abc import Iterable
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from agentjobs.inventory.dependencies import DependencyView
from agentjobs.inventory.graph.views import Neighbor, Neighborhood
from agentjobs.inventory.package_neighbors import PackageNeighbors
from agentjobs.web.dashboard.plots.graph import Kind, Node, Picture, draw

_MAX_DRAWN = 20


class NodeList(msgspec.Struct, frozen=True):
    """`total` also counts neighbors that are not in `nodes`; `empty_text` replaces empty lists."""

    id: str
    title: str
    nodes: tuple[Node, ...]
    total: int
    empty_text: str

    @property
    def more(self) -> int:
        return self.total - len(self.nodes)


class GraphView(msgspec.Struct, frozen=True):
    name: str
    kind: str
    picture: Markup
    lists: tuple[NodeList, ...]


def address_of_module(path: str, name: str, *, external: bool) -> str:
    return _with_query(path, **{"external" if external else "focus": name})


def address_of_package(path: str, ecosystem: str, name: str) -> str:
    return _with_query(path, ecosystem=ecosystem, package=name)


def list_neighbors(path: str, neighbors: Neighborhood) -> tuple[NodeList, ...]:
    """What imports a module, and what it imports."""
    importers = NodeList(
        "importers",
        "Imported by",
        _nodes(path, neighbors.importers.shown),
        neighbors.importers.total,
        "No file imports this module.",
    )
    if neighbors.external:
        return (importers,)
    return (
        importers,
        NodeList(
            "imported",
            "Imports",
            _nodes(path, neighbors.imported.shown),
            neighbors.imported.total,
            "No imports.",
        ),
        NodeList(
            "externals",
            "External imports",
            _nodes(path, neighbors.externals.shown),
            neighbors.externals.total,
            "No external imports.",
        ),
    )


def package_view(
    path: str, ecosystem: str, name: str, neighbors: PackageNeighbors, vulnerable: frozenset[str]
) -> GraphView:
    """`vulnerable` holds the names of packages with known vulnerabilities."""
    manifests = tuple(
        Node(
            manifest,
            f"{path.removesuffix('/graph')}/dependencies?{urlencode({'manifest': manifest})}",
        )
        for manifest in neighbors.manifests
    )
    dependents = tuple(
        _package(path, ecosystem, dependent, vulnerable) for dependent in neighbors.dependents
    )
    dependencies = tuple(
        _package(path, ecosystem, neighbor.name, vulnerable, neighbor.version or "")
        for neighbor in neighbors.dependencies
    )
    left = (*manifests, *dependents)
    picture = Picture(
        title=f"Packages that depend on {name}, and its dependencies",
        centre=Node(
            name,
            kind="bad" if name in vulnerable else "plain",
            note=_versions(neighbors.package_rows),
        ),
        left=left[:_MAX_DRAWN],
        right=dependencies[:_MAX_DRAWN],
        more_left=max(len(left) - _MAX_DRAWN, 0),
        more_right=max(len(dependencies) - _MAX_DRAWN, 0),
        more_left_href="#dependents" if len(dependents) > len(manifests) else "#manifests",
        more_right_href="#dependencies",
    )
    lists = (
        NodeList(
            "manifests", "Declared in", manifests, len(manifests), "Not declared in any manifest."
        ),
        NodeList(
            "dependents",
            "Required by",
            dependents,
            len(dependents),
            "No dependents.",
        ),
        NodeList(
            "dependencies",
            "Requires",
            dependencies,
            len(dependencies),
            "No dependencies found in a lock file.",
        ),
    )
    return GraphView(name, f"{ecosystem} package", draw(picture), lists)


def _with_query(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query, errors='replace')}"


def _nodes(path: str, neighbors: Iterable[Neighbor]) -> tuple[Node, ...]:
    return tuple(
        Node(
            neighbor.name,
            address_of_module(path, neighbor.name, external=neighbor.external),
            "external" if neighbor.external else "plain",
        )
        for neighbor in neighbors
    )


def _package(
    path: str, ecosystem: str, name: str, vulnerable: frozenset[str], version: str = ""
) -> Node:
    notes = [version] if version else []
    notes += ["vulnerable"] if name in vulnerable else []
    kind: Kind = "bad" if name in vulnerable else "plain"
    return Node(name, address_of_package(path, ecosystem, name), kind, ", ".join(notes))


def _versions(rows: Iterable[DependencyView]) -> str:
    return ", ".join(dict.fromkeys(row.version for row in rows if row.version))

"""Turns the neighbors of a module or package into a picture and lists. Pure functions."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from agentjobs.inventory.graph.views import Neighbors
from agentjobs.inventory.package_neighbors import PackageNeighbors
from agentjobs.web.dashboard.plots.layered import Box, draw_layers

MAX_LISTED = 500
_MAX_DRAWN = 20


class Node(msgspec.Struct, frozen=True):
    """A link to a page of the graph; `note` follows its name."""

    name: str
    href: str = ""
    note: str = ""
    is_vulnerable: bool = False


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


def list_neighbors(path: str, neighbors: Neighbors, *, external: bool) -> tuple[NodeList, ...]:
    """What imports a module, and what it imports; an external module has no imports."""
    lists = (
        ("importers", "Imported by", neighbors.importers, "No file imports this module."),
        ("imported", "Imports", neighbors.imported, "No imports."),
        ("externals", "External imports", neighbors.externals, "No external imports."),
    )
    return tuple(
        NodeList(
            id_,
            title,
            tuple(
                Node(name, address_of_module(path, name, external=id_ == "externals"))
                for name in names[:MAX_LISTED]
            ),
            len(names),
            empty_text,
        )
        for id_, title, names, empty_text in lists[: 1 if external else 3]
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
    versions = dict.fromkeys(row.version for row in neighbors.package_rows if row.version)
    center = Node(name, note=", ".join(versions), is_vulnerable=name in vulnerable)
    more_href = "#dependents" if len(dependents) > len(manifests) else "#manifests"
    picture = _draw_package(
        center,
        _shorten_list((*manifests, *dependents), more_href),
        _shorten_list(dependencies, "#dependencies"),
    )
    lists = (
        ("manifests", "Declared in", manifests, "Not declared in any manifest."),
        ("dependents", "Required by", dependents, "No dependents."),
        ("dependencies", "Requires", dependencies, "No dependencies found in a lock file."),
    )
    return GraphView(
        name,
        f"{ecosystem} package",
        picture,
        tuple(
            NodeList(id_, title, nodes, len(nodes), empty_text)
            for id_, title, nodes, empty_text in lists
        ),
    )


def _draw_package(center: Node, above: Sequence[Node], below: Sequence[Node]) -> Markup:
    """Arrows point down, from what requires the package to what it requires."""
    nodes = [*above, center, *below]
    boxes = [
        Box(
            node.name,
            node.href,
            "bad" if node.is_vulnerable else "package",
            note=node.note,
            is_focus=node is center,
        )
        for node in nodes
    ]
    middle = len(above)
    links = {(at, middle): 1 for at in range(middle)}
    links |= {(middle, at): 1 for at in range(middle + 1, len(nodes))}
    title = f"Packages that depend on {center.name}, and its dependencies"
    return draw_layers(title, boxes, links).svg


def _shorten_list(nodes: Sequence[Node], more_href: str) -> list[Node]:
    """Those that are drawn, and one that counts the others and leads to their list."""
    more = len(nodes) - _MAX_DRAWN
    rest = [Node(f"and {more:,} more", more_href)] if more > 0 else []
    return [*nodes[:_MAX_DRAWN], *rest]


def _with_query(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query, errors='replace')}"


def _package(
    path: str, ecosystem: str, name: str, vulnerable: frozenset[str], version: str = ""
) -> Node:
    is_vulnerable = name in vulnerable
    notes: Iterable[str] = (version, "vulnerable" if is_vulnerable else "")
    href = address_of_package(path, ecosystem, name)
    return Node(name, href, ", ".join(filter(None, notes)), is_vulnerable)

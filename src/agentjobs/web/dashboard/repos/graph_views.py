"""Turns the neighbours of a module or package into a picture and lists. Pure functions."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from agentjobs.inventory.dependencies import DependencyView
from agentjobs.inventory.graph_views import Neighbour, Neighbourhood
from agentjobs.inventory.package_neighbors import PackageNeighbours
from agentjobs.web.dashboard.plots.graph import Kind, Node, Picture, draw

_MAX_DRAWN = 20
# Nodes on the right reserved for external modules.
_RESERVED_EXTERNALS = 7


class NodeList(msgspec.Struct, frozen=True):
    """`total` includes neighbours that are not in `nodes`; `none` is shown if there are none."""

    id: str
    title: str
    nodes: tuple[Node, ...]
    total: int
    none: str

    @property
    def more(self) -> int:
        return self.total - len(self.nodes)


class GraphView(msgspec.Struct, frozen=True):
    name: str
    kind: str
    picture: Markup
    lists: tuple[NodeList, ...]


def address_of_module(path: str, name: str, *, external: bool) -> str:
    return _with_query(path, **{"external" if external else "node": name})


def address_of_package(path: str, ecosystem: str, name: str) -> str:
    return _with_query(path, ecosystem=ecosystem, package=name)


def module_view(path: str, neighbours: Neighbourhood) -> GraphView:
    importers = _nodes(path, neighbours.importers.shown)
    imported = _nodes(path, neighbours.imported.shown)
    externals = _nodes(path, neighbours.externals.shown)
    lists = [
        NodeList(
            "importers",
            "Imported by",
            importers,
            neighbours.importers.total,
            "No file imports this module.",
        )
    ]
    if not neighbours.external:
        lists += [
            NodeList("imported", "Imports", imported, neighbours.imported.total, "No other file."),
            NodeList(
                "externals",
                "External imports",
                # The list's title already says so.
                tuple(msgspec.structs.replace(neighbour, note="") for neighbour in externals),
                neighbours.externals.total,
                "Nothing.",
            ),
        ]
    files, others = _select_drawn(imported, externals)
    drawn = len(files) + len(others)
    picture = Picture(
        title=f"What imports {neighbours.name}, and what it imports",
        centre=Node(neighbours.name, kind="external" if neighbours.external else "plain"),
        left=importers[:_MAX_DRAWN],
        right=(*files, *others),
        more_left=max(neighbours.importers.total - _MAX_DRAWN, 0),
        more_right=neighbours.imported.total + neighbours.externals.total - drawn,
        more_left_href="#importers",
        more_right_href="#imported" if neighbours.imported.total > len(files) else "#externals",
    )
    kind = "external module" if neighbours.external else "module"
    return GraphView(neighbours.name, kind, draw(picture), tuple(lists))


def package_view(
    path: str, ecosystem: str, name: str, neighbours: PackageNeighbours, vulnerable: frozenset[str]
) -> GraphView:
    """`vulnerable` holds the names of packages with known vulnerabilities."""
    manifests = tuple(
        Node(
            manifest,
            f"{path.removesuffix('/graph')}/dependencies?{urlencode({'manifest': manifest})}",
        )
        for manifest in neighbours.manifests
    )
    dependents = tuple(
        _package(path, ecosystem, dependent, vulnerable) for dependent in neighbours.askers
    )
    dependencies = tuple(
        _package(path, ecosystem, neighbour.name, vulnerable, neighbour.version or "")
        for neighbour in neighbours.asked
    )
    left = (*manifests, *dependents)
    picture = Picture(
        title=f"Packages that depend on {name}, and its dependencies",
        centre=Node(
            name,
            kind="bad" if name in vulnerable else "plain",
            note=_versions(neighbours.itself),
        ),
        left=left[:_MAX_DRAWN],
        right=dependencies[:_MAX_DRAWN],
        more_left=max(len(left) - _MAX_DRAWN, 0),
        more_right=max(len(dependencies) - _MAX_DRAWN, 0),
        more_left_href="#askers" if len(dependents) > len(manifests) else "#manifests",
        more_right_href="#asked",
    )
    lists = (
        NodeList(
            "manifests", "Declared in", manifests, len(manifests), "Not declared in any manifest."
        ),
        NodeList("askers", "Required by", dependents, len(dependents), "No other package."),
        NodeList(
            "asked",
            "Requires",
            dependencies,
            len(dependencies),
            "No dependencies in a lock file.",
        ),
    )
    return GraphView(name, f"{ecosystem} package", draw(picture), lists)


def _with_query(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query, errors='replace')}"


def _nodes(path: str, neighbours: Iterable[Neighbour]) -> tuple[Node, ...]:
    return tuple(
        Node(
            neighbour.name,
            address_of_module(path, neighbour.name, external=neighbour.external),
            "external" if neighbour.external else "plain",
            "external" if neighbour.external else "",
        )
        for neighbour in neighbours
    )


def _select_drawn(
    files: Sequence[Node], externals: Sequence[Node]
) -> tuple[Sequence[Node], Sequence[Node]]:
    """The nodes to draw, so that neither group displaces the other."""
    external_count = min(len(externals), max(_RESERVED_EXTERNALS, _MAX_DRAWN - len(files)))
    return files[: _MAX_DRAWN - external_count], externals[:external_count]


def _package(
    path: str, ecosystem: str, name: str, vulnerable: frozenset[str], version: str = ""
) -> Node:
    notes = [version] if version else []
    notes += ["vulnerable"] if name in vulnerable else []
    kind: Kind = "bad" if name in vulnerable else "plain"
    return Node(name, address_of_package(path, ecosystem, name), kind, ", ".join(notes))


def _versions(rows: Iterable[DependencyView]) -> str:
    return ", ".join(dict.fromkeys(neighbour.version for neighbour in rows if neighbour.version))

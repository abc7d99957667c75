"""What is shown of a place in a graph: the picture, and lists that say the same and more.

Pure: neighbours in, nodes and addresses out. Modules and packages become the same view.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from agentjobs.inventory.dependencies import DependencyView
from agentjobs.inventory.graph_views import Neighbour, Neighbourhood
from agentjobs.inventory.package_neighbors import PackageNeighbours
from agentjobs.web.dashboard.plots.graph import Kind, Node, Picture, draw

_DRAWN = 20
# Of those that are drawn on the right, so many places are kept for what is from elsewhere.
_DRAWN_EXTERNALS = 7


class NodeList(msgspec.Struct, frozen=True):
    """`total` counts those that are not in `nodes`, too."""

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


def address_of_module(here: str, name: str, *, external: bool) -> str:
    return _address(here, **{"external" if external else "node": name})


def address_of_package(here: str, ecosystem: str, name: str) -> str:
    return _address(here, ecosystem=ecosystem, package=name)


def module_view(here: str, found: Neighbourhood) -> GraphView:
    importers = _nodes(here, found.importers.shown)
    imported = _nodes(here, found.imported.shown)
    externals = _nodes(here, found.externals.shown)
    lists = [
        NodeList(
            "importers", "Imported by", importers, found.importers.total, "No file imports it."
        )
    ]
    if not found.external:
        lists += [
            NodeList("imported", "Imports", imported, found.imported.total, "No other file."),
            NodeList(
                "externals",
                "Imports from elsewhere",
                # The title says it already.
                tuple(msgspec.structs.replace(one, note="") for one in externals),
                found.externals.total,
                "Nothing.",
            ),
        ]
    files, others = _share(imported, externals)
    drawn = len(files) + len(others)
    picture = Picture(
        title=f"What imports {found.name}, and what it imports",
        centre=Node(found.name, kind="external" if found.external else "plain"),
        left=importers[:_DRAWN],
        right=(*files, *others),
        more_left=max(found.importers.total - _DRAWN, 0),
        more_right=found.imported.total + found.externals.total - drawn,
        more_left_href="#importers",
        more_right_href="#imported" if found.imported.total > len(files) else "#externals",
    )
    kind = "imported from elsewhere" if found.external else "module"
    return GraphView(found.name, kind, draw(picture), tuple(lists))


def package_view(
    here: str, ecosystem: str, name: str, found: PackageNeighbours, bad: frozenset[str]
) -> GraphView:
    """`bad` are names of packages that something is known against."""
    manifests = tuple(
        Node(one, f"{here.removesuffix('/graph')}/dependencies?{urlencode({'manifest': one})}")
        for one in found.manifests
    )
    askers = tuple(_package(here, ecosystem, one, bad) for one in found.askers)
    asked = tuple(
        _package(here, ecosystem, one.name, bad, one.version or "") for one in found.asked
    )
    left = (*manifests, *askers)
    picture = Picture(
        title=f"Who asks for {name}, and what it asks for",
        centre=Node(name, kind="bad" if name in bad else "plain", note=_versions(found.itself)),
        left=left[:_DRAWN],
        right=asked[:_DRAWN],
        more_left=max(len(left) - _DRAWN, 0),
        more_right=max(len(asked) - _DRAWN, 0),
        more_left_href="#askers" if len(askers) > len(manifests) else "#manifests",
        more_right_href="#asked",
    )
    lists = (
        NodeList("manifests", "Asked for in", manifests, len(manifests), "No manifest itself."),
        NodeList("askers", "Asked for by", askers, len(askers), "No other package."),
        NodeList("asked", "Asks for", asked, len(asked), "Nothing that a lock file tells of."),
    )
    return GraphView(name, f"{ecosystem} package", draw(picture), lists)


def _address(here: str, **query: str) -> str:
    return f"{here}?{urlencode(query, errors='replace')}"


def _nodes(here: str, neighbours: Iterable[Neighbour]) -> tuple[Node, ...]:
    return tuple(
        Node(
            one.name,
            address_of_module(here, one.name, external=one.external),
            "external" if one.external else "plain",
            "from elsewhere" if one.external else "",
        )
        for one in neighbours
    )


def _share(
    files: Sequence[Node], externals: Sequence[Node]
) -> tuple[Sequence[Node], Sequence[Node]]:
    """Those that are drawn, so that neither pushes the others out."""
    for_others = min(len(externals), max(_DRAWN_EXTERNALS, _DRAWN - len(files)))
    return files[: _DRAWN - for_others], externals[:for_others]


def _package(here: str, ecosystem: str, name: str, bad: frozenset[str], version: str = "") -> Node:
    notes = [version] if version else []
    notes += ["vulnerable"] if name in bad else []
    kind: Kind = "bad" if name in bad else "plain"
    return Node(name, address_of_package(here, ecosystem, name), kind, ", ".join(notes))


def _versions(rows: Iterable[DependencyView]) -> str:
    return ", ".join(dict.fromkeys(one.version for one in rows if one.version))

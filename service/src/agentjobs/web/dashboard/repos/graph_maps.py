"""Turns maps of a repository into a picture and a table. Pure functions."""

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.labels import clean, shorten
from agentjobs.web.dashboard.plots.layered import Box, draw_layers
from agentjobs.web.dashboard.repos.graph_views import Node, address, address_of_module
from agentjobs.web.dashboard.text_filters import counted
from agentjobs_dependencies.graph.package_map import MapNode, PackageMap

# Limit for a path from a repository, which may have thousands of folders.
_MAX_FOLDERS = 20
_MAX_NAME_LENGTH = 80


class MapRow(msgspec.Struct, frozen=True):
    node: Node
    size: int
    imports: tuple[str, ...]
    imported_by: tuple[str, ...]
    is_in_cycle: bool


class MapView(msgspec.Struct, frozen=True):
    """`prefix` is left out of the names; `folded` counts files without a box of their own."""

    picture: Markup
    rows: tuple[MapRow, ...]
    prefix: str
    kinds: frozenset[str]
    has_cycles: bool
    has_direct_files: bool
    folded: int


def view_map(path: str, package_map: PackageMap, title: str) -> MapView:
    nodes, links = package_map.nodes, package_map.links
    targets: list[list[int]] = [[] for _ in nodes]
    sources: list[list[int]] = [[] for _ in nodes]
    for start, end in sorted(links, key=lambda edge: (-links[edge], edge)):
        targets[start].append(end)
        sources[end].append(start)
    links_to = [Node(node.label, _address(path, node)) for node in nodes]
    names = [shorten(clean(node.label), _MAX_NAME_LENGTH) for node in nodes]
    drawing = draw_layers(
        title,
        [
            Box(
                node.label,
                link.href,
                node.kind,
                "" if node.kind == "file" or not link.href else f"{node.size:,}",
                _note(node, len(targets[at]), len(sources[at])),
            )
            for at, (node, link) in enumerate(zip(nodes, links_to, strict=True))
        ],
        links,
    )
    return MapView(
        drawing.svg,
        tuple(
            MapRow(
                link,
                node.size,
                tuple(names[other] for other in targets[at]),
                tuple(names[other] for other in sources[at]),
                at in drawing.in_cycle,
            )
            for at, (node, link) in enumerate(zip(nodes, links_to, strict=True))
        ),
        package_map.prefix,
        frozenset(node.kind for node in nodes),
        bool(drawing.in_cycle),
        any(node.label.endswith("/*") for node in nodes),
        sum(node.size for node in nodes if node.kind == "rest"),
    )


def list_folders(path: str, name: str) -> list[tuple[str, str]]:
    """The repository and the last folders on the way to `name`, with their addresses.

    The last entry is `name` and has no address.
    """
    parts = name.split("/") if name else []
    first = max(1, len(parts) - _MAX_FOLDERS)
    steps = [("Repository", path)]
    steps += [
        (parts[at - 1], address(path, folder="/".join(parts[:at])))
        for at in range(first, len(parts))
    ]
    return [*steps, (parts[-1], "")] if parts else [("Repository", "")]


def _address(path: str, node: MapNode) -> str:
    """A folder opens, a file shows its imports, and packages of a registry are listed."""
    match node.kind:
        case "folder" | "rest":
            return address(path, folder=node.path) if node.path else ""
        case "file":
            return address_of_module(path, node.path)
        case "external":
            return address(f"{path.removesuffix('/graph')}/dependencies", ecosystem=node.path)


def _note(node: MapNode, imports: int, imported_by: int) -> str:
    unit = "package" if node.kind == "external" else "file"
    size = "" if node.kind == "file" else f"{counted(node.size, unit)}, "
    return f"{size}imports {imports}, imported by {imported_by}"

"""Maps of a repository: folders or files, their imports, and a node for each registry. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from agentjobs_dependencies.graph.folders import (
    Group,
    common_folder,
    files_in,
    group_files,
    groups_of_files,
    link_groups,
)
from agentjobs_dependencies.graph.standard_library import is_standard
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.imports.module_graph import find_family

_ECOSYSTEMS = {
    "go": "Go",
    "java": "Maven",
    "javascript": "npm",
    "python": "PyPI",
    "rust": "crates.io",
}

_Link = tuple[int, int]
Kind = Literal["folder", "file", "rest", "external"]


class MapNode(msgspec.Struct, frozen=True):
    """`path` is a folder, `folder/*`, a file or an ecosystem. `size` counts the files, or the
    external names."""

    path: str
    label: str
    kind: Kind
    size: int


class PackageMap(msgspec.Struct, frozen=True):
    """`links` are the numbers of imports between nodes, by their positions. Labels of nodes leave
    out `prefix`."""

    nodes: tuple[MapNode, ...]
    links: Mapping[_Link, int]
    prefix: str


def map_folder(graph: ModuleGraph, path: str = "") -> PackageMap | None:
    """What is in a folder, or in the repository; None if that has no files.

    Without imports of the standard libraries.
    """
    files = files_in(graph.files, path)
    if not files:
        return None
    groups = group_files(graph.files, files, graph.edges)
    group_of = groups_of_files(groups, len(graph.files))
    inside = path.removesuffix("*")
    prefix = inside if inside.endswith("/") or not inside else f"{inside}/"
    nodes, prefix = _nodes(groups, prefix)
    links = link_groups(group_of, graph.edges)
    imports = _count_external_imports(graph, group_of)
    for family in sorted(_ECOSYSTEMS.keys() & {family for family, *_ in imports}):
        own = [(group, name, number) for other, group, name, number in imports if other == family]
        size = len({name for _, name, _ in own})
        for group, _, number in own:
            links[group, len(nodes)] = links.get((group, len(nodes)), 0) + number
        nodes.append(MapNode(_ECOSYSTEMS[family], _ECOSYSTEMS[family], "external", size))
    return PackageMap(tuple(nodes), _without_rest(nodes, links), prefix)


def count_external_names(graph: ModuleGraph) -> Mapping[str, int]:
    """How many files import each external name, without those of the standard libraries."""
    counts: Counter[str] = Counter()
    for _, _, name, number in _count_external_imports(graph, [0] * len(graph.files)):
        counts[name] += number
    return counts


def _without_rest(nodes: Sequence[MapNode], links: Mapping[_Link, int]) -> dict[_Link, int]:
    """Without the links of other files.

    They have nothing in common: what one of them imports tells nothing about the others.
    """
    rest = {at for at, node in enumerate(nodes) if node.kind == "rest"}
    return {link: number for link, number in links.items() if rest.isdisjoint(link)}


def _count_external_imports(
    graph: ModuleGraph, group_of: Sequence[int]
) -> list[tuple[str, int, str, int]]:
    """For each family of languages, group and external name the number of files that import it.

    Without files that are in no group, and names of the standard libraries.
    """
    families = [find_family(path) or "" for path in graph.files]
    owners = list(zip(group_of, families, strict=True))
    # Counts before anything else: a large graph has far more edges than pairs.
    pairs = Counter([(owners[importer], name) for importer, name in graph.external_edges])
    return [
        (family, group, graph.externals[name], number)
        for ((group, family), name), number in pairs.items()
        if group != -1 and not is_standard(family, graph.externals[name])
    ]


def _nodes(groups: Sequence[Group], prefix: str) -> tuple[list[MapNode], str]:
    """The nodes of groups, and the folder that their labels leave out."""
    prefix = prefix or common_folder([group.path for group in groups])
    kinds = [_kind(group, groups) for group in groups]
    labels = [_label(group, kind, prefix) for group, kind in zip(groups, kinds, strict=True)]
    repeated = {label for label, number in Counter(labels).items() if number > 1}
    nodes = []
    for group, kind, label in zip(groups, kinds, labels, strict=True):
        text = group.path if label in repeated and group.path else label
        nodes.append(MapNode(group.path, text, kind, len(group.files)))
    return nodes, prefix


def _kind(group: Group, groups: Sequence[Group]) -> Kind:
    if group.is_file:
        return "file"
    folder = f"{group.path}/" if group.path else ""
    has_parts = any(other.path.startswith(folder) for other in groups if other is not group)
    return "rest" if has_parts else "folder"


def _label(group: Group, kind: Kind, prefix: str) -> str:
    if kind == "rest" and f"{group.path}/" in (prefix, "/"):
        return "other files"
    label = group.path.removeprefix(prefix)
    if kind == "rest":
        return f"{label}/\u2026"
    if label == "*":
        folder = prefix.rstrip("/").rpartition("/")[2] if group.path != "*" else "."
        return f"{folder}/*"
    return label if group.is_file or label.endswith("/*") else f"{label}/"

"""Maps of a repository: packages or modules, their imports, and folded externals. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Literal

import msgspec

from agentjobs.inventory.graph.folders import (
    Group,
    common_folder,
    files_in,
    group_files,
    groups_of_files,
    link_groups,
)
from agentjobs.inventory.graph.standard_library import is_standard
from agentjobs.inventory.graph.views import find_distances
from agentjobs.inventory.imports.module_graph import family_of
from agentjobs.inventory.model import ModuleGraph

MAX_HOPS = 3
_FAR = MAX_HOPS + 1
# Fewer than on other maps, because most lines lead to the same box.
_MAX_NEIGHBORS = 18
ECOSYSTEMS = {
    "go": "Go",
    "java": "Maven",
    "javascript": "npm",
    "python": "PyPI",
    "rust": "crates.io",
}
_LANGUAGES = {
    "go": "Go",
    "java": "Java",
    "javascript": "Node.js",
    "python": "Python",
    "rust": "Rust",
}

# A family of languages, and whether the names are those of a standard library.
_Key = tuple[str, bool]
_Link = tuple[int, int]
Kind = Literal["folder", "file", "rest", "external", "standard"]


class MapNode(msgspec.Struct, frozen=True):
    """`path` is a folder, `folder/*`, a file, an ecosystem or an external name. `size` counts the
    files, or the external names."""

    path: str
    label: str
    kind: Kind
    size: int
    is_focus: bool = False


class PackageMap(msgspec.Struct, frozen=True):
    """`links` are the numbers of imports between nodes, by their positions. Labels of nodes leave
    out `prefix`."""

    nodes: tuple[MapNode, ...]
    links: Mapping[tuple[int, int], int]
    prefix: str


class ExternalNames(msgspec.Struct, frozen=True):
    """External names of an ecosystem or of a standard library, each with its importing files."""

    family: str
    standard: bool
    importers: Mapping[str, int]

    @property
    def ecosystem(self) -> str:
        return ECOSYSTEMS[self.family]

    @property
    def name(self) -> str:
        return f"{_LANGUAGES[self.family]} standard library" if self.standard else self.ecosystem


def map_folder(graph: ModuleGraph, path: str = "", *, standard: bool = False) -> PackageMap | None:
    """What is in a folder, or in the repository; None if that has no files."""
    files = files_in(graph.files, path)
    if not files:
        return None
    groups = group_files(graph.files, files, graph.edges)
    inside = path.removesuffix("*")
    prefix = inside if inside.endswith("/") or not inside else f"{inside}/"
    return _build(graph, groups, set(files), prefix, standard=standard)


def map_neighborhood(
    graph: ModuleGraph, path: str, hops: int, *, standard: bool = False
) -> PackageMap | None:
    """A file or folder with everything that imports it, or is imported by it, over `hops` steps.

    Only imports that lead towards it, or away from it.
    """
    focus = [graph.files.index(path)] if path in graph.files else files_in(graph.files, path)
    if not focus:
        return None
    sides = [
        find_distances(graph.edges, focus, hops, backwards=backwards) for backwards in (True, False)
    ]
    others = sorted(set[int]().union(*sides).difference(focus))
    groups = group_files(graph.files, others, graph.edges, _MAX_NEIGHBORS, deep=True)
    groups.append(Group(path, tuple(focus)))
    whole = _build(graph, groups, set(focus), center=path, standard=standard)
    importers, imported = (_distances(groups, side) for side in sides)
    links = {
        (start, end): number
        for (start, end), number in whole.links.items()
        if end >= len(groups)
        or importers[end] < importers[start] < _FAR
        or imported[start] < imported[end] < _FAR
    }
    return msgspec.structs.replace(whole, links=links)


def map_external(graph: ModuleGraph, name: str, hops: int) -> PackageMap | None:
    """An external name with the files that import it, over `hops` steps."""
    if name not in graph.externals:
        return None
    number = graph.externals.index(name)
    first = {importer for importer, end in graph.external_edges if end == number}
    near = first.union(find_distances(graph.edges, first, hops - 1, backwards=True))
    groups = group_files(graph.files, sorted(near), graph.edges, _MAX_NEIGHBORS, deep=True)
    group_of = groups_of_files(groups, len(graph.files))
    links = link_groups(group_of, graph.edges)
    direct = Counter(group_of[importer] for importer in first)
    links |= {(group, len(groups)): number for group, number in direct.items()}
    nodes, prefix = _nodes(groups)
    nodes.append(MapNode(name, name, "external", 1, is_focus=True))
    return PackageMap(tuple(nodes), _without_rest(nodes, links), prefix)


def find_externals(graph: ModuleGraph, files: Set[int] | None = None) -> dict[_Key, ExternalNames]:
    """What files import from outside of the repository, by family and whether it is standard."""
    group_of = [0 if files is None or at in files else -1 for at in range(len(graph.files))]
    importers: defaultdict[_Key, dict[str, int]] = defaultdict(dict)
    for key, _, name, number in _count_external_imports(graph, group_of):
        importers[key][graph.externals[name]] = number
    return {
        key: ExternalNames(*key, dict(sorted(names.items(), key=lambda item: (-item[1], item[0]))))
        for key, names in sorted(importers.items())
    }


def _build(
    graph: ModuleGraph,
    groups: Sequence[Group],
    importers: Set[int],
    prefix: str = "",
    center: str = "",
    *,
    standard: bool,
) -> PackageMap:
    """External imports are those of `importers`."""
    group_of = groups_of_files(groups, len(graph.files))
    links = link_groups(group_of, graph.edges)
    externals: defaultdict[_Key, set[int]] = defaultdict(set)
    number: defaultdict[tuple[int, _Key], int] = defaultdict(int)
    outside = [group if at in importers else -1 for at, group in enumerate(group_of)]
    for key, group, name, count in _count_external_imports(graph, outside):
        if standard or not key[1]:
            externals[key].add(name)
            number[group, key] += count
    keys = sorted(externals, key=lambda key: (key[1], key[0]))
    nodes, prefix = _nodes(groups, prefix, center)
    for at, key in enumerate(keys, len(nodes)):
        names = ExternalNames(*key, {}).name
        kind: Kind = "standard" if key[1] else "external"
        nodes.append(MapNode(ECOSYSTEMS[key[0]], names, kind, len(externals[key])))
        links |= {
            (group, at): number[group, key]
            for group in range(len(groups))
            if (group, key) in number
        }
    return PackageMap(tuple(nodes), _without_rest(nodes, links), prefix)


def _without_rest(nodes: Sequence[MapNode], links: Mapping[_Link, int]) -> dict[_Link, int]:
    """Without the links of other files, except to the focus.

    They have nothing in common: what one of them imports tells nothing about the others.
    """
    rest = {at for at, node in enumerate(nodes) if node.kind == "rest"}
    focus = {at for at, node in enumerate(nodes) if node.is_focus}
    return {
        link: number
        for link, number in links.items()
        if rest.isdisjoint(link) or not focus.isdisjoint(link)
    }


def _count_external_imports(
    graph: ModuleGraph, group_of: Sequence[int]
) -> list[tuple[_Key, int, int, int]]:
    """For each external name and group the number of files that import it."""
    owners = [(group, family_of(path)) for group, path in zip(group_of, graph.files, strict=True)]
    keys: dict[tuple[str, int], _Key] = {}
    counts = []
    # Counts before anything else: a large graph has far more edges than pairs.
    pairs = Counter([(owners[importer], name) for importer, name in graph.external_edges])
    for ((group, family), name), number in pairs.items():
        if group != -1 and family is not None:
            key = keys.get((family, name))
            if key is None:
                key = keys[family, name] = (family, is_standard(family, graph.externals[name]))
            counts.append((key, group, name, number))
    return counts


def _distances(groups: Sequence[Group], distances: Mapping[int, int]) -> list[int]:
    """How far the nearest file of each group is; the last group is the center."""
    nearest = [
        min((distances[at] for at in group.files if at in distances), default=_FAR)
        for group in groups
    ]
    return [*nearest[:-1], 0]


def _nodes(
    groups: Sequence[Group], prefix: str = "", center: str = ""
) -> tuple[list[MapNode], str]:
    """The nodes of groups, and the folder that their labels leave out."""
    prefix = prefix or common_folder([group.path for group in groups])
    kinds = [_kind(group, groups) for group in groups]
    labels = [_label(group, kind, prefix) for group, kind in zip(groups, kinds, strict=True)]
    repeated = {label for label, number in Counter(labels).items() if number > 1}
    nodes = []
    for group, kind, label in zip(groups, kinds, labels, strict=True):
        text = group.path if label in repeated and group.path else label
        nodes.append(
            MapNode(group.path, text, kind, len(group.files), is_focus=group.path == center != "")
        )
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

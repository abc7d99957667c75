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
from agentjobs.inventory.graph.views import Step, search_breadth_first
from agentjobs.inventory.imports.module_graph import family_of
from agentjobs.inventory.model import ModuleGraph

MAX_HOPS = 4
_FAR = MAX_HOPS + 1
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
        search_breadth_first(graph.edges, focus, hops, backwards=backwards)
        for backwards in (True, False)
    ]
    others = sorted(set[int]().union(*sides).difference(focus))
    groups = group_files(graph.files, others, graph.edges, deep=True)
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
    near = first.union(search_breadth_first(graph.edges, first, hops - 1, backwards=True))
    groups = group_files(graph.files, sorted(near), graph.edges, deep=True)
    group_of = groups_of_files(groups, len(graph.files))
    links = link_groups(group_of, graph.edges)
    direct = Counter(group_of[importer] for importer in first)
    links |= {(group, len(groups)): number for group, number in direct.items()}
    nodes, prefix = _nodes(groups)
    center = MapNode(name, name, "external", 1, is_focus=True)
    return PackageMap((*nodes, center), links, prefix)


def find_externals(
    graph: ModuleGraph, files: Set[int] | None = None
) -> dict[tuple[str, bool], ExternalNames]:
    """What files import from outside of the repository, by family and whether it is standard."""
    importers: defaultdict[tuple[str, bool], Counter[int]] = defaultdict(Counter)
    for key, _, name in _external_imports(graph, files):
        importers[key][name] += 1
    return {
        key: ExternalNames(
            *key, {graph.externals[name]: number for name, number in counts.most_common()}
        )
        for key, counts in sorted(importers.items())
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
    externals: defaultdict[tuple[str, bool], set[int]] = defaultdict(set)
    number: Counter[tuple[int, tuple[str, bool]]] = Counter()
    for key, importer, name in _external_imports(graph, importers):
        if standard or not key[1]:
            externals[key].add(name)
            number[group_of[importer], key] += 1
    keys = sorted(externals, key=lambda key: (key[1], key[0]))
    nodes, prefix = _nodes(groups, prefix, center)
    for at, key in enumerate(keys, len(nodes)):
        names = ExternalNames(*key, {}).name
        kind: Kind = "standard" if key[1] else "external"
        nodes.append(MapNode(ECOSYSTEMS[key[0]], names, kind, len(externals[key])))
        links |= {
            (group, at): number[group, key] for group in range(len(groups)) if number[group, key]
        }
    return PackageMap(tuple(nodes), links, prefix)


def _external_imports(
    graph: ModuleGraph, files: Set[int] | None
) -> list[tuple[tuple[str, bool], int, int]]:
    families = [family_of(name) or "" for name in graph.files]
    keys: dict[tuple[str, int], tuple[str, bool]] = {}
    found = []
    for importer, name in graph.external_edges:
        family = families[importer]
        if family and (files is None or importer in files):
            key = keys.get((family, name))
            if key is None:
                key = keys[family, name] = (family, is_standard(family, graph.externals[name]))
            found.append((key, importer, name))
    return found


def _distances(groups: Sequence[Group], steps: Mapping[int, Step]) -> list[int]:
    """How far the nearest file of each group is; the last group is the center."""
    nearest = [
        min((steps[at].distance for at in group.files if at in steps), default=_FAR)
        for group in groups
    ]
    return [*nearest[:-1], 0]


def _nodes(
    groups: Sequence[Group], prefix: str = "", center: str = ""
) -> tuple[list[MapNode], str]:
    """The nodes of groups, and the folder that their labels leave out."""
    prefix = prefix or common_folder([group.path for group in groups])
    labels = [_label(group, prefix) for group in groups]
    repeated = {label for label, number in Counter(labels).items() if number > 1}
    nodes = []
    for group, label in zip(groups, labels, strict=True):
        kind: Kind = "file" if group.is_file else "folder" if group.path else "rest"
        text = group.path if label in repeated and group.path else label
        nodes.append(
            MapNode(group.path, text, kind, len(group.files), is_focus=group.path == center != "")
        )
    return nodes, prefix


def _label(group: Group, prefix: str) -> str:
    if not group.path:
        return f"{len(group.files)} other files"
    label = group.path.removeprefix(prefix)
    if label == "*":
        folder = prefix.rstrip("/").rpartition("/")[2] if group.path != "*" else "."
        return f"{folder}/*"
    return label if group.is_file or label.endswith("/*") else f"{label}/"

"""Views of a module graph: neighbors of a module, most imported modules, search. Pure."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs_dependencies.imports.model import ModuleGraph

MAX_RESULTS = 100

_Pairs = Sequence[tuple[int, int]]


class Module(msgspec.Struct, frozen=True):
    """A file of the repository or an external name; `importers` counts the importing files."""

    name: str
    external: bool
    importers: int


class Neighbors(msgspec.Struct, frozen=True):
    """Sorted names: `importers` and `imported` are files of the repository."""

    importers: tuple[str, ...]
    imported: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()


def find_neighbors(graph: ModuleGraph, name: str, *, external: bool = False) -> Neighbors | None:
    """None if there is no such file or external name."""
    names, edges = _names_and_edges(graph, external)
    if name not in names:
        return None
    center = names.index(name)
    importers = {start for start, end in edges if end == center}
    if external:
        return Neighbors(_sorted_names(graph.files, importers))
    imported = {end for start, end in graph.edges if start == center}
    externals = {end for start, end in graph.external_edges if start == center}
    return Neighbors(
        _sorted_names(graph.files, importers - {center}),
        _sorted_names(graph.files, imported - {center}),
        _sorted_names(graph.externals, externals),
    )


def most_imported(graph: ModuleGraph, number: int) -> list[Module]:
    """Files, without those that no file imports."""
    counts, names = _importers(graph, external=False)
    ranked = heapq.nsmallest(number, counts, key=lambda at: (-counts[at], names[at]))
    return [Module(names[at], False, counts[at]) for at in ranked]


def search_modules(graph: ModuleGraph, text: str, *, limit: int = MAX_RESULTS) -> list[Module]:
    """Modules whose name contains the text, ignoring case, the most imported first."""
    needle = text.strip().lower()
    modules = [
        Module(name, external, counts[at])
        for external in (False, True)
        for counts, names in [_importers(graph, external=external)]
        for at, name in enumerate(names)
        if needle in name.lower()
    ]
    return heapq.nsmallest(
        limit, modules, key=lambda module: (-module.importers, module.external, module.name)
    )


def _importers(graph: ModuleGraph, *, external: bool) -> tuple[Counter[int], tuple[str, ...]]:
    names, edges = _names_and_edges(graph, external)
    return Counter([end for start, end in edges if external or start != end]), names


def _names_and_edges(graph: ModuleGraph, external: bool) -> tuple[tuple[str, ...], _Pairs]:
    if external:
        return graph.externals, graph.external_edges
    return graph.files, graph.edges


def _sorted_names(names: Sequence[str], numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(sorted(names[number] for number in numbers))

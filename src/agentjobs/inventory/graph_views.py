"""Looking at a module graph from one place: neighbours, what is imported most, names by a part.

Pure: a graph comes in. Refuses to know where it is stored and how it is drawn.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import msgspec

from agentjobs.inventory.model import ModuleGraph

MAX_NEIGHBOURS = 100
_FARTHEST = 10

_Pairs = Sequence[tuple[int, int]]


class Module(msgspec.Struct, frozen=True):
    """A file of the repository or, if external, a name that none of its files answers to.

    `importers` is how many files import it.
    """

    name: str
    external: bool
    importers: int


class Neighbour(msgspec.Struct, frozen=True):
    """`through` is the module one step nearer to the centre by which it was found."""

    name: str
    external: bool
    distance: int
    through: str


class Neighbours(msgspec.Struct, frozen=True):
    """The nearest `shown` of `total`, by distance and name."""

    shown: tuple[Neighbour, ...] = ()
    total: int = 0

    @property
    def more(self) -> int:
        return self.total - len(self.shown)


class Neighbourhood(msgspec.Struct, frozen=True):
    """`imported` are files; what is imported from elsewhere is in `externals`."""

    name: str
    external: bool
    importers: Neighbours
    imported: Neighbours
    externals: Neighbours


def around(
    graph: ModuleGraph,
    node: str,
    *,
    external: bool | None = None,
    depth: int = 1,
    most: int = MAX_NEIGHBOURS,
) -> Neighbourhood | None:
    """None if nothing has that name. A file comes before an external of the same name, unless
    `external` says which is meant; `most` is for each of the three lists."""
    depth = max(1, min(depth, _FARTHEST))
    if external is not True and node in graph.files:
        return _around_file(graph, node, depth, most)
    if external is not False and node in graph.externals:
        return _around_external(graph, node, depth, most)
    return None


def most_imported(graph: ModuleGraph, number: int, *, external: bool = False) -> list[Module]:
    """Files, or what they import from elsewhere; without those that nobody imports."""
    counts, names = _importers(graph, external)
    ranked = heapq.nsmallest(number, counts, key=lambda at: (-counts[at], names[at]))
    return [Module(names[at], external, counts[at]) for at in ranked]


def search_modules(graph: ModuleGraph, text: str, *, most: int = MAX_NEIGHBOURS) -> list[Module]:
    """Those with the text in their name, in any case; the most imported first."""
    wanted = text.strip().lower()
    found = [
        Module(name, external, counts[at])
        for external in (False, True)
        for counts, names in [_importers(graph, external)]
        for at, name in enumerate(names)
        if wanted in name.lower()
    ]
    return heapq.nsmallest(most, found, key=lambda one: (-one.importers, one.external, one.name))


def _importers(graph: ModuleGraph, external: bool) -> tuple[Counter[int], tuple[str, ...]]:
    edges = graph.external_edges if external else graph.edges
    counts = Counter([imported for importer, imported in edges if external or importer != imported])
    return counts, graph.externals if external else graph.files


def _around_file(graph: ModuleGraph, node: str, depth: int, most: int) -> Neighbourhood:
    centre = graph.files.index(node)
    importers = _walk(graph.edges, {centre: centre}, depth, backwards=True)
    imported = _walk(graph.edges, {centre: centre}, depth, backwards=False)
    within = {centre, *(at for at, step in imported.items() if step.distance < depth)}
    externals: dict[int, _Step] = {}
    for importer, at in _steps_from(within, graph.external_edges, backwards=False):
        distance = 1 + (0 if importer == centre else imported[importer].distance)
        if at not in externals or distance < externals[at].distance:
            externals[at] = _Step(distance, importer)
    name = graph.files.__getitem__
    return Neighbourhood(
        node,
        False,
        _neighbours(importers, name, name, most),
        _neighbours(imported, name, name, most),
        _neighbours(externals, graph.externals.__getitem__, name, most, external=True),
    )


def _around_external(graph: ModuleGraph, node: str, depth: int, most: int) -> Neighbourhood:
    centre = graph.externals.index(node)
    first = {importer: centre for importer, at in graph.external_edges if at == centre}
    found = {at: _Step(1, -1) for at in first}
    for at, step in _walk(graph.edges, first, depth - 1, backwards=True).items():
        found[at] = _Step(step.distance + 1, step.through)

    def through(at: int) -> str:
        return node if at == -1 else graph.files[at]

    importers = _neighbours(found, graph.files.__getitem__, through, most)
    return Neighbourhood(node, True, importers, Neighbours(), Neighbours())


class _Step(msgspec.Struct, frozen=True):
    distance: int
    through: int


def _walk(edges: _Pairs, start: Iterable[int], depth: int, *, backwards: bool) -> dict[int, _Step]:
    """What lies around the start, by the shortest way; the start itself is left out."""
    seen, layer = set(start), set(start)
    found: dict[int, _Step] = {}
    for distance in range(1, depth + 1):
        reached: dict[int, int] = {}
        for here, there in _steps_from(layer, edges, backwards):
            if there not in seen:
                reached[there] = min(here, reached.get(there, here))
        found.update({at: _Step(distance, through) for at, through in reached.items()})
        seen.update(reached)
        layer = set(reached)
    return found


def _steps_from(layer: Set[int], edges: _Pairs, backwards: bool) -> _Pairs:
    # Graphs have many edges and a look has few: nothing but the test is done for all of them.
    if backwards:
        return [(imported, importer) for importer, imported in edges if imported in layer]
    return [edge for edge in edges if edge[0] in layer]


def _neighbours(
    steps: Mapping[int, _Step],
    name: Callable[[int], str],
    through: Callable[[int], str],
    most: int,
    *,
    external: bool = False,
) -> Neighbours:
    nearest = heapq.nsmallest(most, steps, key=lambda at: (steps[at].distance, name(at)))
    return Neighbours(
        tuple(
            Neighbour(name(at), external, steps[at].distance, through(steps[at].through))
            for at in nearest
        ),
        len(steps),
    )

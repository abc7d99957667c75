"""Views of a module graph: neighborhood of a module, most imported modules, search. Pure."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import msgspec

from agentjobs.inventory.model import ModuleGraph

MAX_NEIGHBORS = 100
_MAX_DEPTH = 10

_Pairs = Sequence[tuple[int, int]]


class Module(msgspec.Struct, frozen=True):
    """A file of the repository or an external name; `importers` counts the importing files."""

    name: str
    external: bool
    importers: int


class Neighbor(msgspec.Struct, frozen=True):
    """`through` is the module on the shortest path that is one step nearer to the center."""

    name: str
    external: bool
    distance: int
    through: str


class Neighbors(msgspec.Struct, frozen=True):
    """The nearest `shown` of `total`, by distance and name."""

    shown: tuple[Neighbor, ...] = ()
    total: int = 0

    @property
    def more(self) -> int:
        return self.total - len(self.shown)


class Neighborhood(msgspec.Struct, frozen=True):
    """`imported` are files of the repository; `externals` are external names."""

    name: str
    external: bool
    importers: Neighbors
    imported: Neighbors
    externals: Neighbors


def find_neighborhood(
    graph: ModuleGraph,
    node: str,
    *,
    external: bool | None = None,
    depth: int = 1,
    limit: int = MAX_NEIGHBORS,
) -> Neighborhood | None:
    """None if there is no such module. A file takes precedence over an external of the same name
    unless `external` is given; `limit` applies to each of the three lists."""
    depth = max(1, min(depth, _MAX_DEPTH))
    if external is not True and node in graph.files:
        return _file_neighborhood(graph, node, depth, limit)
    if external is not False and node in graph.externals:
        return _external_neighborhood(graph, node, depth, limit)
    return None


def most_imported(graph: ModuleGraph, number: int, *, external: bool = False) -> list[Module]:
    """Files or external names, without those that no file imports."""
    counts, names = _importers(graph, external)
    ranked = heapq.nsmallest(number, counts, key=lambda at: (-counts[at], names[at]))
    return [Module(names[at], external, counts[at]) for at in ranked]


def search_modules(graph: ModuleGraph, text: str, *, limit: int = MAX_NEIGHBORS) -> list[Module]:
    """Modules whose name contains the text, ignoring case, the most imported first."""
    needle = text.strip().lower()
    modules = [
        Module(name, external, counts[at])
        for external in (False, True)
        for counts, names in [_importers(graph, external)]
        for at, name in enumerate(names)
        if needle in name.lower()
    ]
    return heapq.nsmallest(
        limit, modules, key=lambda found: (-found.importers, found.external, found.name)
    )


def _importers(graph: ModuleGraph, external: bool) -> tuple[Counter[int], tuple[str, ...]]:
    edges = graph.external_edges if external else graph.edges
    counts = Counter([imported for importer, imported in edges if external or importer != imported])
    return counts, graph.externals if external else graph.files


def _file_neighborhood(graph: ModuleGraph, node: str, depth: int, limit: int) -> Neighborhood:
    center = graph.files.index(node)
    importers = search_breadth_first(graph.edges, {center: center}, depth, backwards=True)
    imported = search_breadth_first(graph.edges, {center: center}, depth, backwards=False)
    within = {center, *(at for at, step in imported.items() if step.distance < depth)}
    externals: dict[int, Step] = {}
    for importer, at in _steps_from(within, graph.external_edges, backwards=False):
        distance = 1 + (0 if importer == center else imported[importer].distance)
        if at not in externals or distance < externals[at].distance:
            externals[at] = Step(distance, importer)
    name = graph.files.__getitem__
    return Neighborhood(
        node,
        False,
        _nearest(importers, name, name, limit),
        _nearest(imported, name, name, limit),
        _nearest(externals, graph.externals.__getitem__, name, limit, external=True),
    )


def _external_neighborhood(graph: ModuleGraph, node: str, depth: int, limit: int) -> Neighborhood:
    center = graph.externals.index(node)
    first = {importer: center for importer, at in graph.external_edges if at == center}
    steps = {at: Step(1, -1) for at in first}
    for at, step in search_breadth_first(graph.edges, first, depth - 1, backwards=True).items():
        steps[at] = Step(step.distance + 1, step.through)

    def through(at: int) -> str:
        return node if at == -1 else graph.files[at]

    importers = _nearest(steps, graph.files.__getitem__, through, limit)
    return Neighborhood(node, True, importers, Neighbors(), Neighbors())


class Step(msgspec.Struct, frozen=True):
    distance: int
    through: int


def search_breadth_first(
    edges: _Pairs, start: Iterable[int], depth: int, *, backwards: bool
) -> dict[int, Step]:
    """All nodes within `depth` by their shortest path, without the start."""
    visited, layer = set(start), set(start)
    steps: dict[int, Step] = {}
    for distance in range(1, depth + 1):
        next_layer: dict[int, int] = {}
        for node, neighbor in _steps_from(layer, edges, backwards):
            if neighbor not in visited:
                next_layer[neighbor] = min(node, next_layer.get(neighbor, node))
        steps.update({node: Step(distance, through) for node, through in next_layer.items()})
        visited.update(next_layer)
        layer = set(next_layer)
    return steps


def _steps_from(layer: Set[int], edges: _Pairs, backwards: bool) -> _Pairs:
    # A graph has many edges and a layer few nodes, so only the test runs for every edge.
    if backwards:
        return [(imported, importer) for importer, imported in edges if imported in layer]
    return [edge for edge in edges if edge[0] in layer]


def _nearest(
    steps: Mapping[int, Step],
    name: Callable[[int], str],
    through: Callable[[int], str],
    limit: int,
    *,
    external: bool = False,
) -> Neighbors:
    nearest = heapq.nsmallest(limit, steps, key=lambda at: (steps[at].distance, name(at)))
    return Neighbors(
        tuple(
            Neighbor(name(at), external, steps[at].distance, through(steps[at].through))
            for at in nearest
        ),
        len(steps),
    )

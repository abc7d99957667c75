"""Merges module graphs: those of different files, or an old graph and changes. Pure.

The files of a graph are its sources, whose imports it has, followed by other imported files.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from agentjobs.inventory.graph.encoding import (
    START,
    Edges,
    FlatGraph,
    PathGraph,
    edges_of,
    numbers_of,
    renumber,
)


def join_graphs(parts: Sequence[PathGraph], paths: Sequence[str]) -> FlatGraph:
    """The graph of all sources; `paths` are all paths of the commit."""
    sources = sorted({number for part in parts for number in part.sources})
    edges = _merge_sorted([part.edges for part in parts])
    targets = sorted(set(edges.ends).difference(sources))
    files = [*sources, *targets]
    positions = [0] * len(paths)
    for position, number in enumerate(files):
        positions[number] = position
    edges = Edges(renumber(edges.starts, positions), renumber(edges.ends, positions))
    externals = sorted({name for part in parts for name in part.externals})
    external_edges = _merge_sorted([_renumber_externals(part, externals) for part in parts])
    external_edges = Edges(renumber(external_edges.starts, positions), external_edges.ends)
    # Paths that are not UTF-8 may have the same displayed form, so one source may be in two parts.
    has_duplicates = len(sources) < sum(len(part.sources) for part in parts)
    if targets or has_duplicates:
        # Targets were numbered among the sources and now follow them.
        edges, external_edges = _sort(edges), _sort(external_edges)
    return FlatGraph([paths[number] for number in files], edges, externals, external_edges)


def _renumber_externals(part: PathGraph, externals: Sequence[str]) -> Edges:
    number = {name: at for at, name in enumerate(externals)}
    edges = part.external_edges
    return Edges(edges.starts, renumber(edges.ends, [number[name] for name in part.externals]))


def _sort(edges: Edges) -> Edges:
    return edges_of(sorted(set(numbers_of(edges.starts, edges.ends))))


def _merge_sorted(parts: Sequence[Edges]) -> Edges:
    """All edges by their starts. Copies runs, because a part has many consecutive starts."""
    merged = edges_of(())
    heap = [(part.starts[0], at, 0) for at, part in enumerate(parts) if part.starts]
    heapify(heap)
    while heap:
        _, at, begin = heap[0]
        starts, ends = parts[at].starts, parts[at].ends
        end = bisect_right(starts, starts[begin], begin)
        # In a heap, the second smallest is one of the two items after the first.
        others = heap[1:3]
        end = bisect_left(starts, min(others)[0], end) if others else len(starts)
        merged.starts += starts[begin:end]
        merged.ends += ends[begin:end]
        if end < len(starts):
            heapreplace(heap, (starts[end], at, end))
        else:
            heappop(heap)
    return merged


def _renumber_edges(edges: Edges, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    return numbers_of(renumber(edges.starts, starts), renumber(edges.ends, ends))


def patch_graph(
    old: FlatGraph,
    sources: int,
    new: FlatGraph,
    changed: Collection[str],
    removed: Collection[str] = (),
) -> FlatGraph | None:
    """Replace the imports of changed and added sources in `old`, which has `sources` sources.

    None if a file still imports a removed file.
    """
    position = {path: at for at, path in enumerate(old.files[:sources])}
    outdated = sorted(position[path] for path in {*changed, *removed} if path in position)
    edges = _replace_edges(old.edges, outdated, [])
    external_edges = _replace_edges(old.external_edges, outdated, [])
    own = update_sorted(old.files[:sources], set(changed).difference(position), removed)
    ends = set(edges.ends)
    targets = {old.files[end] for end in ends if end >= sources}.union(new.files).difference(own)
    if any(position.get(path) in ends or path in targets for path in removed):
        return None
    files = [*own, *sorted(targets)]
    new_position = {path: at for at, path in enumerate(files)}
    if files != old.files:
        moved = [new_position.get(path, 0) for path in old.files]
        # The order of files is unchanged, so the edges stay sorted.
        edges = Edges(renumber(edges.starts, moved), renumber(edges.ends, moved))
        external_edges = Edges(renumber(external_edges.starts, moved), external_edges.ends)
    fresh = sorted(new_position[path] for path in changed)
    start = [new_position[path] for path in new.files]
    number = {name: at for at, name in enumerate(old.externals)}
    ends_outside = [number.setdefault(name, len(number)) for name in new.externals]
    edges = _replace_edges(edges, fresh, _renumber_edges(new.edges, start, start))
    external_edges = _replace_edges(
        external_edges, fresh, _renumber_edges(new.external_edges, start, ends_outside)
    )
    return FlatGraph(files, edges, *_sort_externals(list(number), external_edges))


def update_sorted(names: list[str], added: Iterable[str], removed: Collection[str]) -> list[str]:
    """A copy of the sorted list with names added and removed."""
    updated = names.copy()
    for name in removed:
        at = bisect_left(updated, name)
        del updated[at : at + (updated[at : at + 1] == [name])]
    for name in added:
        insort(updated, name)
    return updated


def _replace_edges(old: Edges, replaced: Sequence[int], new: Sequence[int]) -> Edges:
    """The old edges, with those of the replaced files taken from `new`."""
    new_ends: dict[int, list[int]] = {}
    for edge in sorted(new):
        new_ends.setdefault(edge // START, []).append(edge % START)
    starts, ends, at = array(old.starts.typecode), array(old.ends.typecode), 0
    for start in replaced:
        low = bisect_left(old.starts, start, at)
        starts += old.starts[at:low]
        ends += old.ends[at:low]
        own = new_ends.get(start, [])
        starts.extend([start] * len(own))
        ends.extend(own)
        at = bisect_right(old.starts, start, low)
    return Edges(starts + old.starts[at:], ends + old.ends[at:])


def _sort_externals(names: list[str], edges: Edges) -> tuple[list[str], Edges]:
    """The imported names, sorted, and the edges with the numbers of that order."""
    imported = sorted(names[end] for end in set(edges.ends))
    if imported == names:
        return imported, edges
    number = {name: at for at, name in enumerate(imported)}
    new_numbers = [number.get(name, 0) for name in names]
    return imported, edges_of(sorted(numbers_of(edges.starts, renumber(edges.ends, new_numbers))))

"""Module graphs put together: those of different files, or an old one and what changed. Pure.

A graph names first the files whose imports it has, its sources, and then others they lead to.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from agentjobs.repos.index.graph_data import (
    START,
    Edges,
    FlatGraph,
    edges_of,
    numbers_of,
    renumbered,
)


def join_graphs(parts: Sequence[tuple[FlatGraph, int]]) -> FlatGraph:
    """The graph of all sources, in order; each part comes with the number of its own."""
    sources = sorted(chain.from_iterable(part.files[:count] for part, count in parts))
    led_to = chain.from_iterable(part.files[count:] for part, count in parts)
    files = [*sources, *sorted(set(led_to).difference(sources))]
    externals = sorted({name for part, _ in parts for name in part.externals})
    place = {path: at for at, path in enumerate(files)}
    number = {name: at for at, name in enumerate(externals)}
    edges: list[int] = []
    outward: list[int] = []
    for part, _ in parts:
        at = [place[path] for path in part.files]
        to = [number[name] for name in part.externals]
        edges += _renumbered(part.edges, at, at)
        outward += _renumbered(part.external_edges, at, to)
    edges.sort()
    outward.sort()
    return FlatGraph(files, edges_of(edges), externals, edges_of(outward))


def _renumbered(edges: Edges, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    return numbers_of(renumbered(edges.starts, starts), renumbered(edges.ends, ends))


def patch_graph(
    old: FlatGraph,
    sources: int,
    new: FlatGraph,
    changed: Collection[str],
    removed: Collection[str] = (),
) -> FlatGraph | None:
    """`old`, of so many sources, with what `new` says of those that changed or are new.

    None if something still leads to a file that was removed.
    """
    position = {path: at for at, path in enumerate(old.files[:sources])}
    outdated = sorted(position[path] for path in {*changed, *removed} if path in position)
    edges = _spliced(old.edges, outdated, [])
    outward = _spliced(old.external_edges, outdated, [])
    own = with_and_without(old.files[:sources], set(changed).difference(position), removed)
    ends = set(edges.ends)
    led_to = {old.files[end] for end in ends if end >= sources}.union(new.files).difference(own)
    if any(position.get(path) in ends or path in led_to for path in removed):
        return None
    files = [*own, *sorted(led_to)]
    place = {path: at for at, path in enumerate(files)}
    if files != old.files:
        at = [place.get(path, 0) for path in old.files]
        # Their order stays, and so does that of the edges.
        edges = Edges(renumbered(edges.starts, at), renumbered(edges.ends, at))
        outward = Edges(renumbered(outward.starts, at), outward.ends)
    fresh = sorted(place[path] for path in changed)
    start = [place[path] for path in new.files]
    number = {name: to for to, name in enumerate(old.externals)}
    outside = [number.setdefault(name, len(number)) for name in new.externals]
    edges = _spliced(edges, fresh, _renumbered(new.edges, start, start))
    outward = _spliced(outward, fresh, _renumbered(new.external_edges, start, outside))
    return FlatGraph(files, edges, *_in_order(list(number), outward))


def with_and_without(names: list[str], new: Iterable[str], gone: Collection[str]) -> list[str]:
    """Names that are in order, some more and some less."""
    found = names.copy()
    for name in gone:
        at = bisect_left(found, name)
        del found[at : at + (found[at : at + 1] == [name])]
    for name in new:
        insort(found, name)
    return found


def _spliced(old: Edges, replaced: Sequence[int], new: Sequence[int]) -> Edges:
    """The old edges, but those of the replaced files as they are now."""
    now: dict[int, list[int]] = {}
    for edge in sorted(new):
        now.setdefault(edge // START, []).append(edge % START)
    starts, ends, at = array(old.starts.typecode), array(old.ends.typecode), 0
    for start in replaced:
        low = bisect_left(old.starts, start, at)
        starts += old.starts[at:low]
        ends += old.ends[at:low]
        own = now.get(start, [])
        starts.extend([start] * len(own))
        ends.extend(own)
        at = bisect_right(old.starts, start, low)
    return Edges(starts + old.starts[at:], ends + old.ends[at:])


def _in_order(names: list[str], edges: Edges) -> tuple[list[str], Edges]:
    """The names that edges lead to, sorted, and the edges with their new numbers."""
    kept = sorted(names[end] for end in set(edges.ends))
    if kept == names:
        return kept, edges
    number = {name: at for at, name in enumerate(kept)}
    to = [number.get(name, 0) for name in names]
    return kept, edges_of(sorted(numbers_of(edges.starts, renumbered(edges.ends, to))))

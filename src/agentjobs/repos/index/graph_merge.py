"""Module graphs put together: those of different files, or an old one and what changed. Pure.

A graph names first the files whose imports it has, its sources, and then others they lead to.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import chain

from agentjobs.repos.index.graph_data import Edges, FlatGraph, flat_edges
from agentjobs.repos.index.model import ModuleGraph


def join_graphs(parts: Sequence[tuple[ModuleGraph, int]]) -> ModuleGraph:
    """The graph of all sources; each part comes with the number of its own."""
    if len(parts) == 1:
        return parts[0][0]
    sources = sorted(chain.from_iterable(part.files[:count] for part, count in parts))
    led_to = chain.from_iterable(part.files[count:] for part, count in parts)
    files = (*sources, *sorted(set(led_to).difference(sources)))
    externals = tuple(sorted({name for part, _ in parts for name in part.externals}))
    place = {path: at for at, path in enumerate(files)}
    number = {name: at for at, name in enumerate(externals)}
    edges: list[tuple[int, int]] = []
    outward: list[tuple[int, int]] = []
    for part, _ in parts:
        at = [place[path] for path in part.files]
        to = [number[name] for name in part.externals]
        edges += [(at[start], at[end]) for start, end in part.edges]
        outward += [(at[start], to[end]) for start, end in part.external_edges]
    return ModuleGraph(files, tuple(sorted(edges)), externals, tuple(sorted(outward)))


def patch_graph(
    old: FlatGraph, sources: int, new: ModuleGraph, changed: Collection[str]
) -> FlatGraph | None:
    """`old`, of so many sources, with what `new` says of those that changed.

    None if that makes a file appear or disappear among those that are no sources.
    """
    position = {path: at for at, path in enumerate(old.files)}
    if not (position.keys() >= set(new.files)):
        return None
    place = [position[path] for path in new.files]
    number = {name: at for at, name in enumerate(old.externals)}
    outside = [number.setdefault(name, len(number)) for name in new.externals]
    replaced = sorted(position[path] for path in changed)
    edges = _spliced(old.edges, replaced, [(place[at], place[to]) for at, to in new.edges])
    outward = [(place[at], outside[to]) for at, to in new.external_edges]
    external_edges = _spliced(old.external_edges, replaced, outward)
    if len(old.files) > sources:
        led_to = {end for end in edges.ends if end >= sources}
        if len(led_to) != len(old.files) - sources:
            return None
    return FlatGraph(old.files, edges, *_in_order(list(number), external_edges))


def _spliced(old: Edges, replaced: Sequence[int], new: Sequence[tuple[int, int]]) -> Edges:
    """The old edges, but those of the replaced files as they are now."""
    now: dict[int, list[int]] = {}
    for start, end in sorted(new):
        now.setdefault(start, []).append(end)
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
    ends = (number[names[end]] for end in edges.ends)
    return kept, flat_edges(sorted(zip(edges.starts, ends, strict=True)))

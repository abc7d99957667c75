"""Module graphs put together: those of different files, or an old one and what changed. Pure.

A graph names first the files whose imports it has, its sources, and then others they lead to.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from agentjobs.inventory.graph_data import (
    START,
    Edges,
    FlatGraph,
    PathGraph,
    edges_of,
    numbers_of,
    renumbered,
)


def join_graphs(parts: Sequence[PathGraph], paths: Sequence[str]) -> FlatGraph:
    """The graph of all sources; `paths` are all there are."""
    sources = sorted({number for part in parts for number in part.sources})
    edges = _interleaved([part.edges for part in parts])
    led_to = sorted(set(edges.ends).difference(sources))
    numbered = [*sources, *led_to]
    at = [0] * len(paths)
    for position, number in enumerate(numbered):
        at[number] = position
    edges = Edges(renumbered(edges.starts, at), renumbered(edges.ends, at))
    externals = sorted({name for part in parts for name in part.externals})
    outward = _interleaved([_outward(part, externals) for part in parts])
    outward = Edges(renumbered(outward.starts, at), outward.ends)
    # Two names that are no text may be shown as the same, and then one source is in two parts.
    is_one_twice = len(sources) < sum(len(part.sources) for part in parts)
    if led_to or is_one_twice:
        # What was led to stood among the sources, and is behind them now.
        edges, outward = _sorted(edges), _sorted(outward)
    return FlatGraph([paths[number] for number in numbered], edges, externals, outward)


def _outward(part: PathGraph, externals: Sequence[str]) -> Edges:
    number = {name: at for at, name in enumerate(externals)}
    edges = part.external_edges
    return Edges(edges.starts, renumbered(edges.ends, [number[name] for name in part.externals]))


def _sorted(edges: Edges) -> Edges:
    return edges_of(sorted(set(numbers_of(edges.starts, edges.ends))))


def _interleaved(parts: Sequence[Edges]) -> Edges:
    """All edges by their starts; a part has many neighbours, which are taken together."""
    whole = edges_of(())
    left = [(part.starts[0], at, 0) for at, part in enumerate(parts) if part.starts]
    heapify(left)
    while left:
        _, at, begin = left[0]
        starts, ends = parts[at].starts, parts[at].ends
        end = bisect_right(starts, starts[begin], begin)
        # The next of the others is one of the two behind the first.
        others = left[1:3]
        end = bisect_left(starts, min(others)[0], end) if others else len(starts)
        whole.starts += starts[begin:end]
        whole.ends += ends[begin:end]
        if end < len(starts):
            heapreplace(left, (starts[end], at, end))
        else:
            heappop(left)
    return whole


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

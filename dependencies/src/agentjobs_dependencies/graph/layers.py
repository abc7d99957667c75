"""Arranges a graph in rows, so that edges point down except those that close a cycle. Pure.

For pictures: at most a few dozen nodes. The result depends only on the arguments.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec

from agentjobs_dependencies.graph.row_order import order_rows, place_rows

Edge = tuple[int, int]

# Including the gaps between them.
_BEND_WIDTH = 9.0


class Layers(msgspec.Struct, frozen=True):
    """`rows` from top to bottom, from left to right. Items from `count` on are bends: places
    where an edge of several rows passes a row; `routes` has the items of an edge from end to end.

    `backward` edges point up, because each closes a cycle. Their reverse may have a route; those
    in `returns` have one of their own, also from top to bottom, and the others follow from these.
    `implied` edges have no route: their end is also reached through other nodes. `centers` are the
    horizontal centers of all items.
    """

    rows: tuple[tuple[int, ...], ...]
    centers: tuple[float, ...]
    routes: Mapping[Edge, tuple[int, ...]]
    returns: Mapping[Edge, tuple[int, ...]]
    backward: frozenset[Edge]
    implied: frozenset[Edge]
    in_cycle: frozenset[int]


def arrange(widths: Sequence[float], weights: Mapping[Edge, int], max_width: float) -> Layers:
    """`widths` of the nodes include the gaps between them.

    Cycles are cut at their lightest edges.
    """
    edges = {edge: weights[edge] for edge in sorted(weights) if edge[0] != edge[1]}
    reach, backward = _cut_cycles(len(widths), edges)
    forward = [edge for edge in edges if edge not in backward]
    implied = frozenset(_find_implied(reach, forward))
    rows = _fill_rows(widths, forward, max_width)
    row_of = {node: at for at, row in enumerate(rows) for node in row}
    in_cycle = frozenset(
        node
        for node in range(len(widths))
        for start, end in backward
        if _reaches(reach, end, node) and _reaches(reach, node, start)
    )
    all_widths = list(widths)

    def route(upper: int, lower: int) -> tuple[int, ...]:
        passed = rows[row_of[upper] + 1 : row_of[lower]]
        bends = range(len(all_widths), len(all_widths) + len(passed))
        all_widths.extend([_BEND_WIDTH] * len(passed))
        for bend, row in zip(bends, passed, strict=True):
            # In the middle, because lines to the same node keep this order.
            row.insert(len(row) // 2, bend)
        return (upper, *bends, lower)

    routes = {edge: route(*edge) for edge in forward if edge not in implied}
    two_way = {edge for edge in backward if edge[::-1] in routes}
    returns = {
        (start, end): route(end, start)
        for start, end in _select_returns(reach, two_way, backward, row_of)
    }
    lines = [*routes.values(), *returns.values()]
    ordered = order_rows(rows, lines)
    centers = tuple(place_rows(ordered, lines, all_widths))
    return Layers(tuple(map(tuple, ordered)), centers, routes, returns, backward, implied, in_cycle)


def _cut_cycles(count: int, edges: Mapping[Edge, int]) -> tuple[list[int], frozenset[Edge]]:
    """What each node reaches, as bits, without the edges that would close a cycle.

    Adds the heaviest edges first, so that the lightest ones of a cycle are cut.
    """
    reach, backward = [0] * count, set()
    for start, end in sorted(edges, key=lambda edge: (-edges[edge], edge)):
        if _reaches(reach, end, start):
            backward.add((start, end))
            continue
        _add_edge(reach, start, end)
    return reach, frozenset(backward)


def _add_edge(reach: list[int], start: int, end: int) -> None:
    added = reach[end] | 1 << end
    for node in range(len(reach)):
        if _reaches(reach, node, start):
            reach[node] |= added


def _reaches(reach: Sequence[int], start: int, end: int) -> bool:
    return start == end or bool(reach[start] >> end & 1)


def _find_implied(reach: Sequence[int], edges: Sequence[Edge]) -> set[Edge]:
    """The edges whose end is also reached through another edge of their start."""
    through = [0] * len(reach)
    for start, end in edges:
        through[start] |= reach[end]
    return {(start, end) for start, end in edges if through[start] >> end & 1}


def _select_returns(
    reach: Sequence[int], two_way: Set[Edge], backward: Set[Edge], row_of: Mapping[int, int]
) -> list[Edge]:
    """Few backward edges that together with `two_way` reach the ends of all backward edges.

    Those over most rows first.
    """
    reach, selected = list(reach), []
    for start, end in sorted(two_way):
        _add_edge(reach, start, end)
    for start, end in sorted(backward, key=lambda edge: (row_of[edge[1]] - row_of[edge[0]], edge)):
        if not _reaches(reach, start, end):
            _add_edge(reach, start, end)
            selected.append((start, end))
    return sorted(selected)


def _fill_rows(widths: Sequence[float], edges: Sequence[Edge], max_width: float) -> list[list[int]]:
    """Each node in the lowest row that has space and is above everything it points to.

    Nodes without edges come last, below all others.
    """
    targets: dict[int, list[int]] = {}
    for start, end in edges:
        targets.setdefault(start, []).append(end)
    linked = {node for edge in edges for node in edge}
    heights: dict[int, int] = {}
    for node in _from_the_bottom(len(widths), targets):
        heights[node] = max((heights[end] + 1 for end in targets.get(node, ())), default=0)
    rows: list[list[int]] = []
    space: list[float] = []
    row_of: dict[int, int] = {}
    loose = [node for node in heights if node not in linked]
    for node in [*loose, *sorted(heights.keys() & linked, key=lambda at: (heights[at], at))]:
        row = max((row_of[end] + 1 for end in targets.get(node, ())), default=0)
        if node in linked and loose:
            row = max(row, row_of[loose[-1]] + 1)
        while row < len(rows) and space[row] < widths[node]:
            row += 1
        if row == len(rows):
            rows.append([])
            space.append(max_width)
        rows[row].append(node)
        space[row] -= widths[node]
        row_of[node] = row
    return rows[::-1]


def _from_the_bottom(count: int, targets: Mapping[int, Sequence[int]]) -> list[int]:
    """All nodes, each after those it points to."""
    order: dict[int, None] = {}
    for first in range(count):
        stack = [first]
        while stack:
            open_ends = [end for end in targets.get(stack[-1], ()) if end not in order]
            if open_ends:
                stack += open_ends
            else:
                order[stack.pop()] = None
    return list(order)

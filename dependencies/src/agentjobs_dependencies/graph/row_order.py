"""Orders the items of rows with few crossings of lines, and places them near each other. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

_SWEEPS = 12

_Rows = Sequence[Sequence[int]]
# By item, the items in the row above or below that a line leads to.
_Neighbors = Mapping[int, Sequence[int]]


def order_rows(rows: _Rows, routes: _Rows) -> list[list[int]]:
    """Sorts each row by the mean place of its neighbors, down and up again.

    A route has an item of each row that it passes, from top to bottom.
    """
    above, below = _find_neighbors(routes)
    current = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        is_upward = sweep % 2 == 1
        previous: Mapping[int, float] = {}
        ordered: list[list[int]] = []
        for row in reversed(current) if is_upward else current:
            keys = _means(row, below if is_upward else above, previous, _places(row))
            ordered.append(sorted(row, key=keys.__getitem__))
            previous = _places(ordered[-1])
        current = ordered[::-1] if is_upward else ordered
    return current


def place_rows(rows: _Rows, routes: _Rows, widths: Sequence[float]) -> list[float]:
    """The center of each item: near its neighbors, in the given order, without overlaps.

    Between 0 and the width of the widest row.
    """
    above, below = _find_neighbors(routes)
    width = max((sum(widths[item] for item in row) for row in rows), default=0.0)
    centers: dict[int, float] = {}
    for row in rows:
        centers |= _place_row(row, dict.fromkeys(row, width / 2), widths, width)
    for sweep in range(_SWEEPS):
        is_upward = sweep % 2 == 1
        for row in reversed(rows) if is_upward else rows:
            wanted = _means(row, below if is_upward else above, centers, centers)
            centers |= _place_row(row, wanted, widths, width)
    return [centers[item] for item in range(len(widths))]


def _find_neighbors(routes: _Rows) -> tuple[_Neighbors, _Neighbors]:
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for route in routes:
        for upper, lower in pairwise(route):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _places(row: Sequence[int]) -> dict[int, float]:
    return {item: (at + 0.5) / len(row) for at, item in enumerate(row)}


def _means(
    row: Sequence[int],
    neighbors: _Neighbors,
    place: Mapping[int, float],
    default: Mapping[int, float],
) -> dict[int, float]:
    means = {}
    for item in row:
        known = [place[other] for other in neighbors.get(item, ())]
        means[item] = sum(known) / len(known) if known else default[item]
    return means


def _place_row(
    row: Sequence[int], wanted: Mapping[int, float], widths: Sequence[float], width: float
) -> dict[int, float]:
    """The least squares of the distances to the wanted centers, between 0 and `width`.

    Without their own widths, the items only must not swap: isotonic regression.
    """
    offsets, end = [], 0.0
    for item in row:
        offsets.append(end + widths[item] / 2)
        end += widths[item]
    free = width - end
    blocks: list[tuple[float, int]] = []
    for item, offset in zip(row, offsets, strict=True):
        total, count = wanted[item] - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    shifts = [min(max(total / count, 0.0), free) for total, count in blocks for _ in range(count)]
    return {item: offset + shift for item, offset, shift in zip(row, offsets, shifts, strict=True)}

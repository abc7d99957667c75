"""Who may send how much at once, so that nobody waits for somebody else's slow receiver.

First attempts, first attempts to endpoints that were slow the last time, and retries each have a
lane of their own. In memory, of one sender; knows neither store nor network.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Self

import msgspec

Lane = Literal["first", "slow", "retry"]

SLOW_MS = 2_000


class Candidate(msgspec.Struct, frozen=True):
    """A delivery that could be sent now."""

    id: str
    endpoint_id: str
    organization_id: str


class Lanes:
    def __init__(self, concurrency: int, endpoint_concurrency: int) -> None:
        half = max(1, concurrency // 2)
        self._capacity: dict[Lane, int] = {"first": concurrency, "slow": half, "retry": half}
        self._of_endpoint: dict[Lane, int] = {
            "first": endpoint_concurrency,
            "slow": max(1, endpoint_concurrency // 4),
            "retry": max(1, endpoint_concurrency // 2),
        }
        self._used: Counter[Lane] = Counter()
        self._by_endpoint: Counter[tuple[Lane, str]] = Counter()
        self._by_organization: Counter[tuple[Lane, str]] = Counter()
        self._slow: set[str] = set()

    def first_lane_of(self, endpoint_id: str) -> Lane:
        return "slow" if endpoint_id in self._slow else "first"

    def is_open(self, lane: Lane) -> bool:
        return self._used[lane] < self._capacity[lane]

    def most_of_endpoint(self, lane: Lane) -> int:
        return self._of_endpoint[lane]

    def full_endpoints(self, lanes: Iterable[Lane]) -> list[str]:
        """Those that have all they may have at once in one of these lanes."""
        wanted = set(lanes)
        return [
            endpoint_id
            for (lane, endpoint_id), used in self._by_endpoint.items()
            if lane in wanted and used >= self._of_endpoint[lane]
        ]

    def choose(
        self, candidates: Iterable[Candidate], *, are_retries: bool
    ) -> list[tuple[Lane, Candidate]]:
        """As many as there is room for, one of each endpoint before the second of any."""
        seen = self._copy()
        chosen: list[tuple[Lane, Candidate]] = []
        for one in _in_turns(candidates):
            lane: Lane = "retry" if are_retries else self.first_lane_of(one.endpoint_id)
            if seen._has_room(lane, one.endpoint_id, one.organization_id):
                seen.enter(lane, one.endpoint_id, one.organization_id)
                chosen.append((lane, one))
        return chosen

    def enter(self, lane: Lane, endpoint_id: str, organization_id: str) -> None:
        self._used[lane] += 1
        self._by_endpoint[lane, endpoint_id] += 1
        self._by_organization[lane, organization_id] += 1

    def leave(self, lane: Lane, endpoint_id: str, organization_id: str) -> None:
        self._used[lane] -= 1
        _take_one(self._by_endpoint, (lane, endpoint_id))
        _take_one(self._by_organization, (lane, organization_id))

    def learn(self, endpoint_id: str, duration_ms: int) -> None:
        """How long its last answer took."""
        (self._slow.add if duration_ms >= SLOW_MS else self._slow.discard)(endpoint_id)

    def _has_room(self, lane: Lane, endpoint_id: str, organization_id: str) -> bool:
        capacity = self._capacity[lane]
        # Whatever one organization's endpoints do, the others find a quarter of the lane.
        of_organization = capacity - capacity // 4
        return (
            self._used[lane] < capacity
            and self._by_endpoint[lane, endpoint_id] < self._of_endpoint[lane]
            and self._by_organization[lane, organization_id] < of_organization
        )

    def _copy(self) -> Self:
        other = copy.copy(self)
        other._used = self._used.copy()
        other._by_endpoint = self._by_endpoint.copy()
        other._by_organization = self._by_organization.copy()
        return other


def _take_one(counts: Counter[tuple[Lane, str]], key: tuple[Lane, str]) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _in_turns(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    queues: dict[str, list[Candidate]] = {}
    for one in candidates:
        queues.setdefault(one.endpoint_id, []).append(one)
    depth = max(map(len, queues.values()), default=0)
    for turn in range(depth):
        for queue in queues.values():
            yield from _nth(queue, turn)


def _nth(queue: Sequence[Candidate], number: int) -> Sequence[Candidate]:
    return queue[number : number + 1]

"""Who may send how much at once, so that nobody waits for somebody else's slow receiver.

First attempts and retries have a lane each, and beside it one for endpoints that were slow the
last time. In memory, of one sender; knows neither store nor network.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Self

Kind = Literal["first", "retry"]

SLOW_MS = 2_000


class Lane(NamedTuple):
    kind: Kind
    is_slow: bool = False


class Candidate(NamedTuple):
    """A delivery that could be sent now."""

    id: str
    endpoint_id: str
    organization_id: str


class Lanes:
    def __init__(self, concurrency: int, endpoint_concurrency: int) -> None:
        self._capacity = _shares(concurrency, slow_part=2)
        self._of_endpoint = _shares(endpoint_concurrency, slow_part=4)
        self._used: Counter[Lane] = Counter()
        self._by_endpoint: Counter[tuple[Lane, str]] = Counter()
        self._by_organization: Counter[tuple[Lane, str]] = Counter()
        self._slow: set[str] = set()

    def room(self, kind: Kind) -> int:
        lanes = (Lane(kind), Lane(kind, is_slow=True))
        return sum(self._capacity[lane] - self._used[lane] for lane in lanes)

    def full_organizations(self, kind: Kind) -> set[str]:
        """Those that have all they may have; slow endpoints wait with the others then."""
        return {
            organization_id
            for (lane, organization_id), used in self._by_organization.items()
            if lane == Lane(kind) and used >= self._of_organization(lane)
        }

    def most_of_endpoint(self, kind: Kind) -> int:
        return self._of_endpoint[Lane(kind)]

    def full_endpoints(self, kind: Kind) -> set[str]:
        """Those that nothing more can be sent to now."""
        full = {
            endpoint_id
            for (lane, endpoint_id), used in self._by_endpoint.items()
            if lane.kind == kind and used >= self._of_endpoint[lane]
        }
        slow = Lane(kind, is_slow=True)
        return full if self._used[slow] < self._capacity[slow] else full | self._slow

    def choose(self, kind: Kind, candidates: Iterable[Candidate]) -> list[tuple[Lane, Candidate]]:
        """Enters as many as there is room for, one of each endpoint before the second of any.

        Who has the least under way comes first: a quick receiver need not wait for sluggish ones.
        """
        chosen: list[tuple[Lane, Candidate]] = []
        under_way = self._by_endpoint.copy()
        ordered = sorted(candidates, key=lambda one: under_way[Lane(kind), one.endpoint_id])
        for one in _in_turns(ordered):
            lane = Lane(kind, one.endpoint_id in self._slow)
            if self.has_room(lane, one.endpoint_id, one.organization_id):
                self.enter(lane, one.endpoint_id, one.organization_id)
                chosen.append((lane, one))
        return chosen

    def draft(self) -> Self:
        """A copy to plan with."""
        other = copy.copy(self)
        other._used = self._used.copy()
        other._by_endpoint = self._by_endpoint.copy()
        other._by_organization = self._by_organization.copy()
        return other

    def has_room(self, lane: Lane, endpoint_id: str, organization_id: str) -> bool:
        return (
            self._used[lane] < self._capacity[lane]
            and self._by_endpoint[lane, endpoint_id] < self._of_endpoint[lane]
            and self._by_organization[lane, organization_id] < self._of_organization(lane)
        )

    def enter(self, lane: Lane, endpoint_id: str, organization_id: str) -> None:
        self._used[lane] += 1
        self._by_endpoint[lane, endpoint_id] += 1
        self._by_organization[lane, organization_id] += 1

    def leave(self, lane: Lane, endpoint_id: str, organization_id: str) -> bool:
        """True: somebody may have waited for the place."""
        was_needed = not self.has_room(lane, endpoint_id, organization_id)
        self._used[lane] -= 1
        _take_one(self._by_endpoint, (lane, endpoint_id))
        _take_one(self._by_organization, (lane, organization_id))
        return was_needed

    def learn(self, endpoint_id: str, duration_ms: int) -> None:
        """How long its last answer took."""
        (self._slow.add if duration_ms >= SLOW_MS else self._slow.discard)(endpoint_id)

    def _of_organization(self, lane: Lane) -> int:
        # Whatever one organization's endpoints do, the others find a quarter of the lane.
        return self._capacity[lane] - self._capacity[lane] // 4


def _in_turns(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Endpoints in the order they come in, each with its first, then each with its second, …"""
    queues: dict[str, list[Candidate]] = {}
    for one in candidates:
        queues.setdefault(one.endpoint_id, []).append(one)
    for turn in range(max(map(len, queues.values()), default=0)):
        for queue in queues.values():
            yield from queue[turn : turn + 1]


def _shares(whole: int, *, slow_part: int) -> dict[Lane, int]:
    """Retries have half as much as first attempts, slow endpoints only a part of either."""
    of_kind: dict[Kind, int] = {"first": whole, "retry": max(1, whole // 2)}
    fast = {Lane(kind): share for kind, share in of_kind.items()}
    slow = {Lane(kind, is_slow=True): max(1, of_kind[kind] // slow_part) for kind in of_kind}
    return fast | slow


def _take_one(counts: Counter[tuple[Lane, str]], key: tuple[Lane, str]) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]

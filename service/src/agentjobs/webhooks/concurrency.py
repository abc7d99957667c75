"""Which waiting deliveries a sender attempts next: concurrency limits and fairness.

Holds the state of one sender in memory; knows neither the store nor the network.
"""

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Self

AttemptKind = Literal["first", "retry"]

# An organization and one of its endpoints; claims scan them in this order.
Position = tuple[str, str]

SLOW_MS = 2_000


class SlotPool(NamedTuple):
    """First attempts and retries have separate slots, and so do slow endpoints within each."""

    kind: AttemptKind
    is_slow: bool = False


class Candidate(NamedTuple):
    """A delivery that could be sent now."""

    id: str
    endpoint_id: str
    organization_id: str


class _Capacity(NamedTuple):
    total: int
    per_endpoint: int
    per_organization: int


class Slots:
    """Limits how many attempts run at once: in total, per endpoint and per organization.

    Endpoints whose last attempt was slow use their own pool, so they cannot delay the others.
    """

    def __init__(self, concurrency: int, endpoint_concurrency: int) -> None:
        self._capacity = _capacities(concurrency, endpoint_concurrency)
        self._used: Counter[SlotPool] = Counter()
        self._used_by_endpoint: Counter[tuple[SlotPool, str]] = Counter()
        self._used_by_organization: Counter[tuple[SlotPool, str]] = Counter()
        self._slow_endpoints: set[str] = set()

    def count_free(self, kind: AttemptKind) -> int:
        pools = (SlotPool(kind), SlotPool(kind, is_slow=True))
        return sum(self._capacity[pool].total - self._used[pool] for pool in pools)

    def saturated_organizations(self, kind: AttemptKind) -> set[str]:
        """Organizations at their limit; their slow endpoints wait too."""
        return {
            organization_id
            for (pool, organization_id), used in self._used_by_organization.items()
            if pool == SlotPool(kind) and used >= self._capacity[pool].per_organization
        }

    def saturated_endpoints(self, kind: AttemptKind) -> set[str]:
        """Endpoints that cannot take another attempt now."""
        saturated = {
            endpoint_id
            for (pool, endpoint_id), used in self._used_by_endpoint.items()
            if pool.kind == kind and used >= self._capacity[pool].per_endpoint
        }
        slow = SlotPool(kind, is_slow=True)
        is_slow_full = self._used[slow] >= self._capacity[slow].total
        return saturated | self._slow_endpoints if is_slow_full else saturated

    def is_saturated(self, kind: AttemptKind) -> bool:
        """Whether some deliveries cannot be sent now."""
        is_full = self.count_free(kind) <= 0
        return bool(is_full or self.saturated_organizations(kind) or self.saturated_endpoints(kind))

    def max_per_endpoint(self, kind: AttemptKind) -> int:
        return self._capacity[SlotPool(kind)].per_endpoint

    def select(
        self, kind: AttemptKind, candidates: Iterable[Candidate]
    ) -> list[tuple[SlotPool, Candidate]]:
        """Acquires slots round-robin: one per endpoint before the second of any.

        Endpoints with the fewest attempts in progress come first, so that a fast receiver does
        not wait for slow ones.
        """
        selected: list[tuple[SlotPool, Candidate]] = []
        fast, used = SlotPool(kind), self._used_by_endpoint.copy()
        ordered = sorted(candidates, key=lambda candidate: used[fast, candidate.endpoint_id])
        for candidate in _round_robin(ordered):
            pool = SlotPool(kind, candidate.endpoint_id in self._slow_endpoints)
            if self.has_free(pool, candidate.endpoint_id, candidate.organization_id):
                self.acquire(pool, candidate.endpoint_id, candidate.organization_id)
                selected.append((pool, candidate))
        return selected

    def copy(self) -> Self:
        """A copy to plan with: acquiring its slots does not affect this object."""
        other = copy.copy(self)
        other._used = self._used.copy()
        other._used_by_endpoint = self._used_by_endpoint.copy()
        other._used_by_organization = self._used_by_organization.copy()
        return other

    def has_free(self, pool: SlotPool, endpoint_id: str, organization_id: str) -> bool:
        capacity = self._capacity[pool]
        return (
            self._used[pool] < capacity.total
            and self._used_by_endpoint[pool, endpoint_id] < capacity.per_endpoint
            and self._used_by_organization[pool, organization_id] < capacity.per_organization
        )

    def acquire(self, pool: SlotPool, endpoint_id: str, organization_id: str) -> None:
        self._used[pool] += 1
        self._used_by_endpoint[pool, endpoint_id] += 1
        self._used_by_organization[pool, organization_id] += 1

    def release(self, pool: SlotPool, endpoint_id: str, organization_id: str) -> bool:
        """Returns whether a delivery may have been waiting for this slot."""
        was_saturated = not self.has_free(pool, endpoint_id, organization_id)
        self._used[pool] -= 1
        _decrement(self._used_by_endpoint, (pool, endpoint_id))
        _decrement(self._used_by_organization, (pool, organization_id))
        return was_saturated

    def record_duration(self, endpoint_id: str, duration_ms: int) -> None:
        """Marks the endpoint as slow or fast by its latest attempt."""
        if duration_ms >= SLOW_MS:
            self._slow_endpoints.add(endpoint_id)
        else:
            self._slow_endpoints.discard(endpoint_id)


class ScanCursor:
    """The endpoint behind which the next claim begins, so that endpoints take turns.

    One per kind of attempt. It exists for fairness alone: losing it loses no delivery.
    """

    def __init__(self) -> None:
        self.after: Position = ("", "")
        self._endpoint_count = 1

    def share_per_endpoint(self, free_slots: int) -> int:
        """How many deliveries to read per endpoint, so that together they fill the slots."""
        return max(1, -(-free_slots // self._endpoint_count))

    def advance(
        self, scanned: Sequence[Position], served: Collection[str], *, is_truncated: bool
    ) -> None:
        """Moves behind the last endpoint that got a slot; if none did, behind a truncated scan."""
        self._endpoint_count = max(1, len(scanned))
        passed = [position for position in scanned if position[1] in served]
        if not passed and is_truncated:
            passed = [scanned[-1]]
        if passed:
            self.after = passed[-1]


def _round_robin(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The first candidate of every endpoint, then the second of every endpoint, and so on."""
    queues: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        queues.setdefault(candidate.endpoint_id, []).append(candidate)
    for position in range(max(map(len, queues.values()), default=0)):
        for queue in queues.values():
            yield from queue[position : position + 1]


def _capacities(concurrency: int, per_endpoint: int) -> dict[SlotPool, _Capacity]:
    """Retries get half the slots of first attempts; slow endpoints get a fraction of either."""
    divisors: dict[AttemptKind, int] = {"first": 1, "retry": 2}
    return {
        SlotPool(kind, is_slow): _capacity(
            concurrency // divisor // (2 if is_slow else 1),
            per_endpoint // divisor // (4 if is_slow else 1),
        )
        for kind, divisor in divisors.items()
        for is_slow in (False, True)
    }


def _capacity(total: int, per_endpoint: int) -> _Capacity:
    # A quarter of the slots always remains for other organizations.
    total = max(1, total)
    return _Capacity(total, max(1, per_endpoint), total - total // 4)


def _decrement(counts: Counter[tuple[SlotPool, str]], key: tuple[SlotPool, str]) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]

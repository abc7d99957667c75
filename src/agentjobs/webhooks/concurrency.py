"""Which waiting deliveries a sender attempts next: concurrency limits and fairness.

Holds the state of one sender in memory; knows neither the store nor the network.
"""

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

AttemptKind = Literal["first", "retry"]

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


class Slots:
    """Limits how many attempts run at once: in total, per endpoint and per organization.

    Endpoints whose last attempt was slow use their own pool, so they cannot delay the others.
    """

    def __init__(self, concurrency: int, endpoint_concurrency: int) -> None:
        self._capacity = _capacities(concurrency, slow_divisor=2)
        self._endpoint_capacity = _capacities(endpoint_concurrency, slow_divisor=4)
        self._used: Counter[SlotPool] = Counter()
        self._used_by_endpoint: Counter[tuple[SlotPool, str]] = Counter()
        self._used_by_organization: Counter[tuple[SlotPool, str]] = Counter()
        self._slow_endpoints: set[str] = set()

    def count_free(self, kind: AttemptKind) -> int:
        pools = (SlotPool(kind), SlotPool(kind, is_slow=True))
        return sum(self._capacity[pool] - self._used[pool] for pool in pools)

    def saturated_organizations(self, kind: AttemptKind) -> set[str]:
        """Organizations at their limit; their slow endpoints wait too."""
        return {
            organization_id
            for (pool, organization_id), used in self._used_by_organization.items()
            if pool == SlotPool(kind) and used >= self._organization_capacity(pool)
        }

    def is_saturated(self, kind: AttemptKind) -> bool:
        """Whether some deliveries cannot be sent now."""
        is_full = self.count_free(kind) <= 0
        return bool(is_full or self.saturated_organizations(kind) or self.saturated_endpoints(kind))

    def max_per_endpoint(self, kind: AttemptKind) -> int:
        return self._endpoint_capacity[SlotPool(kind)]

    def saturated_endpoints(self, kind: AttemptKind) -> set[str]:
        """Endpoints that cannot take another attempt now."""
        saturated = {
            endpoint_id
            for (pool, endpoint_id), used in self._used_by_endpoint.items()
            if pool.kind == kind and used >= self._endpoint_capacity[pool]
        }
        slow = SlotPool(kind, is_slow=True)
        if self._used[slow] < self._capacity[slow]:
            return saturated
        return saturated | self._slow_endpoints

    def select(
        self, kind: AttemptKind, candidates: Iterable[Candidate]
    ) -> list[tuple[SlotPool, Candidate]]:
        """Acquires slots round-robin: one per endpoint before the second of any.

        Endpoints with the fewest attempts in progress come first, so that a fast receiver does
        not wait for slow ones.
        """
        selected: list[tuple[SlotPool, Candidate]] = []
        in_progress = self._used_by_endpoint.copy()
        ordered = sorted(candidates, key=lambda each: in_progress[SlotPool(kind), each.endpoint_id])
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
        return (
            self._used[pool] < self._capacity[pool]
            and self._used_by_endpoint[pool, endpoint_id] < self._endpoint_capacity[pool]
            and self._used_by_organization[pool, organization_id]
            < self._organization_capacity(pool)
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

    def _organization_capacity(self, pool: SlotPool) -> int:
        # A quarter of the slots always remains for other organizations.
        return self._capacity[pool] - self._capacity[pool] // 4


@dataclass
class OrganizationScan:
    """The waiting endpoints and deliveries that one claim read for an organization.

    `is_truncated`: more of its endpoints have waiting deliveries.
    """

    organization_id: str
    # In scan order.
    endpoints: dict[str, None] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    is_truncated: bool = False


class ScanCursor:
    """Where the next claim resumes, among organizations and among the endpoints of each.

    One per kind of attempt. It exists for fairness alone: losing it loses no delivery.
    """

    def __init__(self) -> None:
        self.after_organization = ""
        # Whether the latest scan skipped anything that waits.
        self.is_partial = False
        self._after_endpoint: dict[str, str] = {}
        self._endpoint_count = 1

    @property
    def endpoint_offsets(self) -> list[str]:
        """ "<organization> <endpoint>": where an organization's endpoints resume."""
        return [
            f"{organization_id} {endpoint_id}"
            for organization_id, endpoint_id in self._after_endpoint.items()
        ]

    def share_per_endpoint(self, free_slots: int) -> int:
        """How many deliveries to read per endpoint, so that together they fill the slots."""
        return max(1, -(-free_slots // self._endpoint_count))

    def advance(
        self,
        scans: Sequence[OrganizationScan],
        served: Iterable[str],
        *,
        is_truncated: bool,
        skipped: Collection[str] = (),
    ) -> None:
        """Moves past what was scanned.

        `is_truncated`: more organizations have waiting deliveries. `skipped` organizations were
        not scanned and keep their offset.
        """
        after = scans[-1].organization_id if scans and is_truncated else ""
        # A scan does not cover what precedes the offset it started at.
        self.is_partial = bool(self.after_organization or after)
        self.after_organization = after
        self._endpoint_count = max(1, sum(len(scan.endpoints) for scan in scans))
        scanned = {scan.organization_id for scan in scans}
        for organization_id in self._after_endpoint.keys() - scanned - set(skipped):
            # Nothing waits behind this offset any more; endpoints before it were not scanned.
            del self._after_endpoint[organization_id]
            self.is_partial = True
        served_endpoints = set(served)
        for scan in scans:
            self._advance_within(scan, served_endpoints)

    def _advance_within(self, scan: OrganizationScan, served: set[str]) -> None:
        """Stops before the first endpoint without a free slot, else after the last one."""
        start = self._after_endpoint.pop(scan.organization_id, "")
        unserved = {candidate.endpoint_id for candidate in scan.candidates} - served
        after = start
        for endpoint_id in scan.endpoints:
            if endpoint_id in unserved:
                break
            after = endpoint_id
        else:
            after = after if scan.is_truncated else ""
            self.is_partial |= bool(start or after)
        if after:
            self._after_endpoint[scan.organization_id] = after


def _round_robin(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The first candidate of every endpoint, then the second of every endpoint, and so on."""
    queues: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        queues.setdefault(candidate.endpoint_id, []).append(candidate)
    for position in range(max(map(len, queues.values()), default=0)):
        for queue in queues.values():
            yield from queue[position : position + 1]


def _capacities(total: int, *, slow_divisor: int) -> dict[SlotPool, int]:
    """Retries get half the slots of first attempts; slow endpoints get a fraction of either."""
    by_kind: dict[AttemptKind, int] = {"first": total, "retry": max(1, total // 2)}
    fast = {SlotPool(kind): slots for kind, slots in by_kind.items()}
    slow = {
        SlotPool(kind, is_slow=True): max(1, slots // slow_divisor)
        for kind, slots in by_kind.items()
    }
    return fast | slow


def _decrement(counts: Counter[tuple[SlotPool, str]], key: tuple[SlotPool, str]) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]

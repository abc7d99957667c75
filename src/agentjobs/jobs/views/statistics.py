"""The figures of the overview: an organization's last day, week or month, and the one before.

Hours that are over do not change: their sums are kept in memory, of the organizations looked at
last, so that a look reads the present hour only. What a delivery of such an hour came to when it
was asked for again is not seen until they are forgotten.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.jobs.states import CANCELLED, COMPLETED, FAILED
from agentjobs.jobs.views.hourly_stats import HOUR_MS, Counts, Finished, read_counts, read_finished
from agentjobs.store.database import Database

Span = Literal["24h", "7d", "30d"]

# Hours of a bucket, and the number of buckets.
SPANS: Mapping[Span, tuple[int, int]] = {"24h": (1, 24), "7d": (6, 28), "30d": (24, 30)}

# Clocks of other machines differ, and commits come late.
_CLOSED_AFTER_MS = 300_000
# A delivery may take its time, but not for ever.
_SETTLED_AFTER_MS = DAY_MS
# About 30 MB.
_MOST_CELLS = 100_000

_NOW = (
    "SELECT COUNT(*) AS queued, MIN(queued_at) AS oldest,"
    " (SELECT COUNT(*) FROM jobs WHERE organization_id || '' = :organization_id"
    "  AND status || '' = 'running') AS running"
    " FROM jobs WHERE organization_id || '' = :organization_id AND status || '' = 'queued'"
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of a stretch of time. Waits and durations are of jobs that ended in it, cancelled ones apart;
    None: there was none."""

    starts_at: int
    ends_at: int
    accepted: int
    completed: int
    failed: int
    cancelled: int
    mean_wait_ms: int | None
    mean_duration_ms: int | None
    cost_nanousd: int
    deliveries_delivered: int
    deliveries_failed: int

    @property
    def success_rate(self) -> float | None:
        return _ratio(self.completed, self.completed + self.failed)


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """`before` is the same length of time before `total`; the last bucket is not over yet."""

    span: Span
    running: int
    queued: int
    oldest_wait_ms: int | None
    buckets: list[Figures]
    total: Figures
    before: Figures


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`finished` are those that completed or failed; the cost is of cancelled ones, too."""

    finished: int
    completed: int
    mean_duration_ms: int | None
    cost_nanousd: int

    @property
    def success_rate(self) -> float | None:
        return _ratio(self.completed, self.finished)


class _Memory(msgspec.Struct):
    """Of one organization: what is known of hours that are over."""

    counts: dict[int, Counts] = {}
    finished: dict[int, Sequence[Finished]] = {}
    # How much that is, as it was counted last.
    cells: int = 0

    def count_cells(self) -> None:
        ended = sum(1 + len(each) for each in self.finished.values())
        self.cells = len(self.counts) + ended


class Statistics:
    def __init__(self, db: Database, *, most_cells: int = _MOST_CELLS) -> None:
        self._db = db
        self._most_cells = most_cells
        # The one looked at last is the last.
        self._memories: dict[str, _Memory] = {}

    async def overview(
        self, organization_id: str, span: Span, now: int | None = None, *, hours_ahead: int = 0
    ) -> Overview:
        """`hours_ahead`: how far the viewer's clock is ahead of UTC, where days begin."""
        at = now_ms() if now is None else now
        width, number = SPANS[span]
        # Buckets begin at whole multiples of their length, by the viewer's clock.
        local_hour = at // HOUR_MS + hours_ahead
        end = (local_hour // width + 1) * width - hours_ahead
        start = end - width * number
        hours = await self._hours(organization_id, 2 * start - end, at // HOUR_MS, at)
        (present,) = await self._db.fetch_all(_NOW, organization_id=organization_id)
        return Overview(
            span=span,
            running=present["running"],
            queued=present["queued"],
            oldest_wait_ms=None if present["oldest"] is None else max(at - present["oldest"], 0),
            buckets=[_figures(hours, hour, hour + width) for hour in range(start, end, width)],
            total=_figures(hours, start, end),
            before=_figures(hours, 2 * start - end, start),
        )

    async def agent_records(
        self, organization_id: str, since: int, now: int | None = None
    ) -> dict[str, AgentRecord]:
        """By the agent's id; from the beginning of the hour of `since`."""
        at = now_ms() if now is None else now
        hours = await self._hours(organization_id, since // HOUR_MS, at // HOUR_MS, at)
        ended: dict[str, list[Finished]] = {}
        for each in hours.finished.values():
            for one in each:
                ended.setdefault(one.agent, []).append(one)
        return {agent: _record(ones) for agent, ones in ended.items()}

    async def _hours(self, organization_id: str, first: int, last: int, now: int) -> _Memory:
        """Those hours alone, whether they are over or not."""
        known = self._memories.get(organization_id) or _Memory()
        wanted = range(first, last + 1)
        unknown = [hour for hour in wanted if hour not in known.finished]
        finished: dict[int, Sequence[Finished]] = {}
        if unknown:
            found = await read_finished(self._db, organization_id, unknown[0], unknown[-1])
            finished = {hour: found.get(hour, ()) for hour in range(unknown[0], unknown[-1] + 1)}
        counts = await read_counts(
            self._db, organization_id, (hour for hour in wanted if hour not in known.counts)
        )
        self._remember(organization_id, known, finished, counts, now)
        return _Memory(
            {hour: counts.get(hour) or known.counts[hour] for hour in wanted},
            {hour: finished[hour] if hour in finished else known.finished[hour] for hour in wanted},
        )

    def _remember(
        self,
        organization_id: str,
        known: _Memory,
        finished: Mapping[int, Sequence[Finished]],
        counts: Mapping[int, Counts],
        now: int,
    ) -> None:
        closed = (now - _CLOSED_AFTER_MS) // HOUR_MS
        settled = (now - _SETTLED_AFTER_MS) // HOUR_MS
        known.finished.update((hour, each) for hour, each in finished.items() if hour < closed)
        known.counts.update(
            (hour, each)
            for hour, each in counts.items()
            if hour < closed and (not each.pending or hour < settled)
        )
        _forget_before(known, now // HOUR_MS - 2 * SPANS["30d"][0] * SPANS["30d"][1] - 24)
        known.count_cells()
        self._memories.pop(organization_id, None)
        self._memories[organization_id] = known
        kept = sum(memory.cells for memory in self._memories.values())
        while len(self._memories) > 1 and kept > self._most_cells:
            kept -= self._memories.pop(next(iter(self._memories))).cells


def _forget_before(known: _Memory, oldest: int) -> None:
    for hours in (known.counts, known.finished):
        for hour in [hour for hour in hours if hour < oldest]:
            del hours[hour]


def _figures(hours: _Memory, start: int, end: int) -> Figures:
    counts = [hours.counts[hour] for hour in range(start, end) if hour in hours.counts]
    ended = [one for hour in range(start, end) for one in hours.finished.get(hour, ())]
    ran = [one for one in ended if one.status != CANCELLED]
    return Figures(
        starts_at=start * HOUR_MS,
        ends_at=end * HOUR_MS,
        accepted=sum(one.accepted for one in counts),
        completed=_jobs(ended, COMPLETED),
        failed=_jobs(ended, FAILED),
        cancelled=_jobs(ended, CANCELLED),
        mean_wait_ms=_mean(sum(one.wait_ms for one in ran), sum(one.waited for one in ran)),
        mean_duration_ms=_mean(sum(one.run_ms for one in ran), sum(one.ran for one in ran)),
        cost_nanousd=sum(one.cost_nanousd for one in ended),
        deliveries_delivered=sum(one.delivered for one in counts),
        deliveries_failed=sum(one.failed for one in counts),
    )


def _record(ended: Sequence[Finished]) -> AgentRecord:
    ran = [one for one in ended if one.status != CANCELLED]
    return AgentRecord(
        finished=sum(one.jobs for one in ran),
        completed=_jobs(ended, COMPLETED),
        mean_duration_ms=_mean(sum(one.run_ms for one in ran), sum(one.ran for one in ran)),
        cost_nanousd=sum(one.cost_nanousd for one in ended),
    )


def _jobs(ended: Iterable[Finished], status: str) -> int:
    return sum(one.jobs for one in ended if one.status == status)


def _mean(total: int, number: int) -> int | None:
    return total // number if number else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None

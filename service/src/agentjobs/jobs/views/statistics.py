"""The overview's figures: an organization's last day, week or month, and the one before.

The sums of past hours do not change and are cached in memory for the organizations viewed last,
so that a view reads only the current hour. A redelivery of a past hour shows up once the cache
drops the hour.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentjobs.jobs.states import CANCELLED, COMPLETED, FAILED
from agentjobs.jobs.views.hourly_stats import Counts, Finished, read_counts, read_finished
from agentjobs.store.database import Database
from agentjobs.webhooks.statistics import SPANS, Span
from agentjobs_runtime.clock import DAY_MS, HOUR_MS, now_ms
from agentjobs_runtime.weighted_cache import WeightedCache

# Other machines' clocks differ, and transactions commit late.
_CLOSED_AFTER_MS = 300_000
# Deliveries are retried for less than this.
_SETTLED_AFTER_MS = DAY_MS
# About 30 MB.
_MAX_CELLS = 100_000

_NOW = (
    "SELECT COUNT(*) AS queued, MIN(queued_at) AS oldest,"
    " (SELECT COUNT(*) FROM jobs WHERE organization_id || '' = :organization_id"
    "  AND status || '' = 'running') AS running"
    " FROM jobs WHERE organization_id || '' = :organization_id AND status || '' = 'queued'"
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """For one period. Waits and durations are of jobs that completed or failed in it; None when
    there were none."""

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
    """`before` is the period of the same length before `total`; the last bucket is not over yet."""

    span: Span
    running: int
    queued: int
    oldest_wait_ms: int | None
    buckets: list[Figures]
    total: Figures
    before: Figures


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`finished` counts completed and failed jobs; the cost includes cancelled ones."""

    finished: int
    completed: int
    mean_duration_ms: int | None
    cost_nanousd: int

    @property
    def success_rate(self) -> float | None:
        return _ratio(self.completed, self.finished)


class _Hours(msgspec.Struct):
    """The sums of one organization, by hour."""

    counts: dict[int, Counts] = {}
    finished: dict[int, Sequence[Finished]] = {}

    @property
    def cells(self) -> int:
        return len(self.counts) + sum(1 + len(result) for result in self.finished.values())


class Statistics:
    def __init__(self, db: Database, *, max_cells: int = _MAX_CELLS) -> None:
        self._db = db
        self._max_cells = max_cells
        self._cache: WeightedCache[str, _Hours] = WeightedCache(max_cells)

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
        """Records by agent, from the start of the hour of `since`."""
        at = now_ms() if now is None else now
        hours = await self._hours(organization_id, since // HOUR_MS, at // HOUR_MS, at)
        by_agent: dict[str, list[Finished]] = {}
        for groups in hours.finished.values():
            for group in groups:
                by_agent.setdefault(group.agent, []).append(group)
        return {agent: _record(groups) for agent, groups in by_agent.items()}

    async def _hours(self, organization_id: str, first: int, last: int, now: int) -> _Hours:
        """Exactly these hours, past or current."""
        cached = self._cache.get(organization_id) or _Hours()
        hours = range(first, last + 1)
        missing = [hour for hour in hours if hour not in cached.finished]
        finished: dict[int, Sequence[Finished]] = {}
        if missing:
            read = await read_finished(self._db, organization_id, missing[0], missing[-1])
            finished = {hour: read.get(hour, ()) for hour in range(missing[0], missing[-1] + 1)}
        counts = await read_counts(
            self._db, organization_id, (hour for hour in hours if hour not in cached.counts)
        )
        self._remember(organization_id, cached, finished, counts, now)
        return _Hours(
            {hour: counts.get(hour) or cached.counts[hour] for hour in hours},
            {hour: finished[hour] if hour in finished else cached.finished[hour] for hour in hours},
        )

    def _remember(
        self,
        organization_id: str,
        cached: _Hours,
        finished: Mapping[int, Sequence[Finished]],
        counts: Mapping[int, Counts],
        now: int,
    ) -> None:
        closed = (now - _CLOSED_AFTER_MS) // HOUR_MS
        settled = (now - _SETTLED_AFTER_MS) // HOUR_MS
        cached.finished.update((hour, result) for hour, result in finished.items() if hour < closed)
        cached.counts.update(
            (hour, count)
            for hour, count in counts.items()
            if hour < closed and (not count.pending or hour < settled)
        )
        _drop_before(cached, now // HOUR_MS - 2 * SPANS["30d"][0] * SPANS["30d"][1] - 24)
        # Even one that is too large is kept, as the only one.
        self._cache.put(organization_id, cached, min(cached.cells, self._max_cells))


def _drop_before(cached: _Hours, oldest: int) -> None:
    for hours in (cached.counts, cached.finished):
        for hour in [hour for hour in hours if hour < oldest]:
            del hours[hour]


def _figures(hours: _Hours, start: int, end: int) -> Figures:
    counts = [hours.counts[hour] for hour in range(start, end) if hour in hours.counts]
    finished = [group for hour in range(start, end) for group in hours.finished.get(hour, ())]
    ran = [result for result in finished if result.status != CANCELLED]
    return Figures(
        starts_at=start * HOUR_MS,
        ends_at=end * HOUR_MS,
        accepted=sum(count.accepted for count in counts),
        completed=_jobs(finished, COMPLETED),
        failed=_jobs(finished, FAILED),
        cancelled=_jobs(finished, CANCELLED),
        mean_wait_ms=_mean(sum(group.wait_ms for group in ran), sum(group.waited for group in ran)),
        mean_duration_ms=_mean(sum(group.run_ms for group in ran), sum(group.ran for group in ran)),
        cost_nanousd=sum(result.cost_nanousd for result in finished),
        deliveries_delivered=sum(count.delivered for count in counts),
        deliveries_failed=sum(count.failed for count in counts),
    )


def _record(finished: Sequence[Finished]) -> AgentRecord:
    ran = [result for result in finished if result.status != CANCELLED]
    return AgentRecord(
        finished=sum(group.jobs for group in ran),
        completed=_jobs(finished, COMPLETED),
        mean_duration_ms=_mean(sum(group.run_ms for group in ran), sum(group.ran for group in ran)),
        cost_nanousd=sum(result.cost_nanousd for result in finished),
    )


def _jobs(finished: Iterable[Finished], status: str) -> int:
    return sum(result.jobs for result in finished if result.status == status)


def _mean(total: int, number: int) -> int | None:
    return total // number if number else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None

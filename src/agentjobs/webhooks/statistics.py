"""How the deliveries of an endpoint went in the last day, week or month, and how long they took.

The sums of past hours do not change and are cached in memory for the endpoints viewed last. A
redelivery of a past hour shows up once the cache drops the hour.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from agentjobs.clock import DAY_MS, HOUR_MS, now_ms
from agentjobs.identifiers import first_id_at
from agentjobs.store.database import Database, Row

Span = Literal["24h", "7d", "30d"]

# Hours per bucket, and the number of buckets.
SPANS: Mapping[Span, tuple[int, int]] = {"24h": (1, 24), "7d": (6, 28), "30d": (24, 30)}
# Durations are those of the first deliveries of each hour.
SAMPLES_PER_HOUR = 20

# Other machines' clocks differ, and transactions commit late.
_CLOSED_AFTER_MS = 300_000
# Deliveries are retried for less than this.
_SETTLED_AFTER_MS = DAY_MS
# About 20 MB.
_MAX_CELLS = 20_000

# Identifiers begin with their time: ranges of an index are counted without reading rows.
_OF_HOUR = (
    "FROM deliveries d WHERE d.endpoint_id = :endpoint_id AND d.status || '' = '{status}'"
    " AND d.id >= 'dlv_' || SUBSTR(hour.value, 1, 26)"
    " AND d.id < 'dlv_' || SUBSTR(hour.value, 27, 26)"
)
_HOURS = (
    "SELECT hour.value AS hour,"
    + "".join(
        f" (SELECT COUNT(*) {_OF_HOUR.format(status=status)}) AS {status},"
        for status in ("delivered", "failed", "pending")
    )
    + " (SELECT /*sqlite GROUP_CONCAT(a.duration_ms) */"
    " /*postgresql STRING_AGG(a.duration_ms::text, ',') */"
    f" FROM (SELECT d.id {_OF_HOUR.format(status='delivered')} LIMIT {SAMPLES_PER_HOUR}) few"
    " JOIN delivery_attempts a ON a.delivery_id = few.id AND a.error_class IS NULL) AS durations"
    " FROM (SELECT value FROM each(:hours)) AS hour"
)


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries created in a period. Durations are of successful attempts; None without any."""

    starts_at: int
    ends_at: int
    delivered: int
    failed: int
    median_ms: int | None
    p95_ms: int | None

    @property
    def success_rate(self) -> float | None:
        settled = self.delivered + self.failed
        return self.delivered / settled if settled else None


class EndpointRecord(msgspec.Struct, frozen=True):
    """The last bucket is not over yet."""

    span: Span
    buckets: Sequence[Bucket]
    total: Bucket


class _Cell(msgspec.Struct, frozen=True):
    delivered: int
    failed: int
    pending: int
    durations: tuple[int, ...]


class EndpointStatistics:
    def __init__(self, db: Database, *, max_cells: int = _MAX_CELLS) -> None:
        self._db = db
        self._max_cells = max_cells
        # By endpoint, in the order of their last use, and by hour.
        self._cache: dict[str, dict[int, _Cell]] = {}

    async def record(
        self,
        endpoint_id: str,
        span: Span,
        *,
        created_at: int = 0,
        now: int | None = None,
        hours_ahead: int = 0,
    ) -> EndpointRecord:
        """`created_at` is the endpoint's; `hours_ahead` is the offset of the viewer's clock."""
        at = now_ms() if now is None else now
        width, number = SPANS[span]
        # Buckets begin at whole multiples of their length, by the viewer's clock.
        end = ((at // HOUR_MS + hours_ahead) // width + 1) * width - hours_ahead
        start = end - width * number
        first = max(start, created_at // HOUR_MS)
        cells = await self._cells(endpoint_id, range(first, at // HOUR_MS + 1), at)
        buckets = [_bucket(cells, hour, hour + width) for hour in range(start, end, width)]
        return EndpointRecord(span, buckets, _bucket(cells, start, end))

    async def _cells(self, endpoint_id: str, hours: range, now: int) -> dict[int, _Cell]:
        cached = self._cache.pop(endpoint_id, {})
        missing = {_bounds(hour): hour for hour in hours if hour not in cached}
        rows = await self._db.fetch_all(_HOURS, endpoint_id=endpoint_id, hours=list(missing))
        read = {missing[row["hour"]]: _to_cell(row) for row in rows}
        cells = {hour: read.get(hour) or cached[hour] for hour in hours}
        closed = (now - _CLOSED_AFTER_MS) // HOUR_MS
        settled = (now - _SETTLED_AFTER_MS) // HOUR_MS
        oldest = now // HOUR_MS - 24 * 32
        self._cache[endpoint_id] = {
            hour: cell
            for hour, cell in {**cached, **read}.items()
            if oldest < hour < closed and (not cell.pending or hour < settled)
        }
        while len(self._cache) > 1 and sum(map(len, self._cache.values())) > self._max_cells:
            del self._cache[next(iter(self._cache))]
        return cells


def _to_cell(row: Row) -> _Cell:
    durations = tuple(map(int, row["durations"].split(","))) if row["durations"] else ()
    return _Cell(row["delivered"], row["failed"], row["pending"], durations)


def _bucket(cells: Mapping[int, _Cell], start: int, end: int) -> Bucket:
    of_hours = [cells[hour] for hour in range(start, end) if hour in cells]
    durations = sorted(each for cell in of_hours for each in cell.durations)
    return Bucket(
        starts_at=start * HOUR_MS,
        ends_at=end * HOUR_MS,
        delivered=sum(cell.delivered for cell in of_hours),
        failed=sum(cell.failed for cell in of_hours),
        median_ms=_percentile(durations, 50),
        p95_ms=_percentile(durations, 95),
    )


def _percentile(values: Sequence[int], percent: int) -> int | None:
    """The smallest value that at least so many percent do not exceed; `values` are sorted."""
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _bounds(hour: int) -> str:
    """The first identifier of the hour and that of the next, concatenated without prefixes."""
    return "".join(first_id_at("", at * HOUR_MS)[1:] for at in (hour, hour + 1))

"""How the deliveries of an endpoint went in the last day, week or month, and how long they took."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from agentjobs.store.database import Database, Row
from agentjobs_runtime.clock import HOUR_MS, now_ms
from agentjobs_runtime.identifiers import first_id_at

Span = Literal["24h", "7d", "30d"]

# Hours per bucket, and the number of buckets.
SPANS: Mapping[Span, tuple[int, int]] = {"24h": (1, 24), "7d": (6, 28), "30d": (24, 30)}
# Durations are those of the first deliveries of each hour.
SAMPLES_PER_HOUR = 20

# Identifiers begin with their time: ranges of an index are counted without reading rows.
_IN_HOUR = (
    "FROM deliveries d WHERE d.endpoint_id = :endpoint_id AND d.status || '' = '{status}'"
    " AND d.id >= SUBSTR(hour.value, 1, 30) AND d.id < SUBSTR(hour.value, 31, 30)"
)
_HOURS = (
    "SELECT hour.value AS hour,"
    + "".join(
        f" (SELECT COUNT(*) {_IN_HOUR.format(status=status)}) AS {status},"
        for status in ("delivered", "failed")
    )
    + " (SELECT /*sqlite GROUP_CONCAT(a.duration_ms) */"
    " /*postgresql STRING_AGG(a.duration_ms::text, ',') */"
    f" FROM (SELECT d.id {_IN_HOUR.format(status='delivered')} LIMIT {SAMPLES_PER_HOUR}) few"
    " JOIN delivery_attempts a ON a.delivery_id = few.id AND a.error_class IS NULL) AS durations"
    " FROM (SELECT value FROM each(:hours)) AS hour"
)


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries created in a period. Durations are of some successful attempts, sorted."""

    starts_at: int
    ends_at: int
    delivered: int
    failed: int
    durations: Sequence[int]

    @property
    def success_rate(self) -> float | None:
        settled = self.delivered + self.failed
        return self.delivered / settled if settled else None

    @property
    def median_ms(self) -> int | None:
        return _percentile(self.durations, 50)

    @property
    def p95_ms(self) -> int | None:
        return _percentile(self.durations, 95)


class EndpointRecord(msgspec.Struct, frozen=True):
    """The last bucket is not over yet."""

    span: Span
    buckets: Sequence[Bucket]
    total: Bucket


async def load_record(
    db: Database,
    endpoint_id: str,
    span: Span,
    *,
    created_at: int = 0,
    now: int | None = None,
    hours_ahead: int = 0,
) -> EndpointRecord:
    """`created_at` is the endpoint's; `hours_ahead` is the offset of the viewer's clock."""
    width, number = SPANS[span]
    this_hour = (now_ms() if now is None else now) // HOUR_MS
    # Buckets begin at whole multiples of their length, by the viewer's clock.
    end = ((this_hour + hours_ahead) // width + 1) * width - hours_ahead
    start = end - width * number
    hours = {_id_range(at): at for at in range(max(start, created_at // HOUR_MS), this_hour + 1)}
    rows = await db.fetch_all(_HOURS, endpoint_id=endpoint_id, hours=list(hours))
    by_hour = {hours[row["hour"]]: row for row in rows}
    buckets = [_to_bucket(by_hour, at, at + width) for at in range(start, end, width)]
    return EndpointRecord(span, buckets, _to_bucket(by_hour, start, end))


def _to_bucket(by_hour: Mapping[int, Row], start: int, end: int) -> Bucket:
    rows = [by_hour[hour] for hour in range(start, end) if hour in by_hour]
    durations = ",".join(row["durations"] for row in rows if row["durations"])
    return Bucket(
        starts_at=start * HOUR_MS,
        ends_at=end * HOUR_MS,
        delivered=sum(row["delivered"] for row in rows),
        failed=sum(row["failed"] for row in rows),
        durations=sorted(map(int, durations.split(","))) if durations else (),
    )


def _percentile(values: Sequence[int], percent: int) -> int | None:
    """The smallest value that at least so many percent do not exceed; `values` are sorted."""
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _id_range(hour: int) -> str:
    """The first identifiers of the hour and of the next one."""
    return "".join(first_id_at("dlv", at * HOUR_MS) for at in (hour, hour + 1))

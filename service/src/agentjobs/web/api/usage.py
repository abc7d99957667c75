"""`GET /usage`: what the organization's jobs used in a period."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.views.usage import MAX_GROUPS, OTHER, GroupBy, Sums, add_up, read_usage
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.errors import validation_failed
from agentjobs.web.api.query import read_query
from agentjobs.web.api.times import TimeText, parse_time, time_faults
from agentjobs_runtime.clock import DAY_MS, iso_utc
from agentjobs_runtime.json_fields import Count, Timestamp, copy_fields, doc
from agentjobs_runtime.money import NANOUSD_PER_USD
from agentjobs_runtime.problems import Fault

MAX_DAYS = 366
_DEFAULT_DAYS = 30
_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class UsageQuery(msgspec.Struct, frozen=True):
    from_: Annotated[
        TimeText | None,
        doc(
            "The start of the period: RFC 3339, or a date (midnight UTC); by default "
            f"{_DEFAULT_DAYS} days before its end."
        ),
    ] = msgspec.field(default=None, name="from")
    to: Annotated[
        TimeText | None,
        doc(
            "The end of the period, which is not part of it; by default now. A period has at most "
            f"{MAX_DAYS} days."
        ),
    ] = None
    group_by: Annotated[
        GroupBy | None, doc("Also sum by agent, repository or day (UTC); by default only in total.")
    ] = None


class JobCounts(msgspec.Struct, frozen=True):
    total: Annotated[Count, doc("All jobs that were created in the period.")]
    queued: Annotated[Count, doc("Those that are queued now.")]
    running: Annotated[Count, doc("Those that are running now.")]
    completed: Annotated[Count, doc("Those that have completed.")]
    failed: Annotated[Count, doc("Those that have failed.")]
    cancelled: Annotated[Count, doc("Those that were cancelled.")]


class UsageSums(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Annotated[JobCounts, doc("The number of jobs, by their current status.")]
    agent_seconds: Annotated[
        float, Meta(description="How long agents ran, in the last attempt of each job.", ge=0)
    ]
    input_tokens: Annotated[Count, doc("Tokens sent to models, cached ones included.")]
    output_tokens: Annotated[Count, doc("Tokens received from models.")]
    cost_usd: Annotated[float, Meta(description="What models cost, in US dollars.", ge=0)]


class UsageGroup(UsageSums, frozen=True, kw_only=True):
    key: Annotated[
        str,
        doc(
            "The agent's identifier, the repository's full name, or the day such as `2026-01-31`; "
            f"`{OTHER}` sums what follows the {MAX_GROUPS:,} groups with most jobs."
        ),
    ]


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    from_: Annotated[Timestamp, doc("The start of the period.")] = msgspec.field(name="from")
    to: Annotated[Timestamp, doc("The end of the period, which is not part of it.")]
    total: Annotated[UsageSums, doc("The sums of all jobs.")]
    groups: Annotated[
        list[UsageGroup],
        doc(
            "With `group_by`, the sums by agent or repository, most jobs first, or by day, oldest "
            "first. Groups without jobs are left out."
        ),
    ]


async def show(call: Call) -> Response:
    query = read_query(call.scope, UsageQuery, _faults)
    db = call.context.db
    # The end is exclusive: a job that was created in this very millisecond counts.
    to_ms = await db.clock_ms() + 1 if query.to is None else parse_time(query.to) or 0
    from_ms = to_ms - _DEFAULT_DAYS * DAY_MS
    if query.from_ is not None:
        from_ms = parse_time(query.from_) or 0
    _check_period(from_ms, to_ms)
    organization_id = call.caller.organization_id
    # A large organization's query takes seconds: it must not take up all connections.
    with call.context.open_requests.hold(call.caller.key_id):
        async with _locks.setdefault(organization_id, asyncio.Lock()):
            sums = await read_usage(
                db, organization_id, from_ms=from_ms, to_ms=to_ms, group_by=query.group_by
            )
    report = UsageReport(
        from_=iso_utc(from_ms),
        to=iso_utc(to_ms),
        total=UsageSums(**_fields(add_up(sums))),
        groups=[] if query.group_by is None else _groups(sums, query.group_by),
    )
    return Reply(200, report)


def _faults(query: Mapping[str, Any]) -> list[Fault]:
    return time_faults(query, "from", "to")


def _check_period(from_ms: int, to_ms: int) -> None:
    if from_ms >= to_ms:
        raise validation_failed([{"field": "from", "message": "must be before the end, `to`"}])
    if to_ms - from_ms > MAX_DAYS * DAY_MS:
        message = f"must be at most {MAX_DAYS} days before the end, `to`"
        raise validation_failed([{"field": "from", "message": message}])


def _groups(sums: list[Sums], group_by: GroupBy) -> list[UsageGroup]:
    if group_by == "day":
        by_day = sorted((int(group.key or 0), group) for group in sums)
        return [
            UsageGroup(key=iso_utc(day * DAY_MS)[:10], **_fields(group)) for day, group in by_day
        ]
    return [
        UsageGroup(key=OTHER if group.key is None else group.key, **_fields(group))
        for group in sums
    ]


def _fields(sums: Sums) -> dict[str, Any]:
    return {
        "jobs": copy_fields(sums, JobCounts, total=sums.jobs),
        "agent_seconds": sums.agent_ms / 1_000,
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cost_usd": sums.cost_nanousd / NANOUSD_PER_USD,
    }

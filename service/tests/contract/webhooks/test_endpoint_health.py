"""What waits to be sent again to each endpoint, and how its deliveries went, on both stores."""

import pytest

from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.health import Retries, load_retries
from agentjobs.webhooks.statistics import SAMPLES_PER_HOUR, load_record
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import first_id_at, new_id
from tests.support.deliveries import DeliveryHarness, attempt


@pytest.fixture
async def harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    return harness


async def test_retries_are_counted_for_each_endpoint_with_the_time_of_the_next(
    harness: DeliveryHarness,
) -> None:
    failing, healthy = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    for _ in range(3):
        await harness.event("org_a", new_id("job"))
    claimed = await harness.claim()
    assert await load_retries(harness.db, "org_a") == {}
    responses = {failing: attempt(500), healthy: attempt(204)}
    await harness.record(*((each, responses[each.endpoint_id]) for each in claimed))
    failed = [each for each in claimed if each.endpoint_id == failing]
    due = [(await harness.row(each.id))["due_at"] for each in failed]
    assert await load_retries(harness.db, "org_a") == {failing: Retries(3, min(due))}
    assert await load_retries(harness.db, "org_b") == {}
    await harness.change_endpoint(failing, disabled_at=1)
    assert await load_retries(harness.db, "org_a") == {}


async def _insert_delivery(
    tx: Transaction, endpoint_id: str, at: int, status: str, durations: list[int]
) -> None:
    """The attempts of these durations failed, except for the last one of a successful delivery."""
    delivery_id = f"{first_id_at('dlv', at)[:-6]}{new_id('x')[-6:]}"
    await tx.execute(
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        " event, status, due_at, created_at)"
        " VALUES (:id, 'org_a', :endpoint_id, :id, 1, :id, 'job.queued', :status, :at, :at)",
        id=delivery_id,
        endpoint_id=endpoint_id,
        status=status,
        at=at,
    )
    for number, duration in enumerate(durations):
        is_last = number == len(durations) - 1
        await tx.execute(
            "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, error_class,"
            " request_headers, response_headers, response_body)"
            " VALUES (:delivery_id, :id, :at, :duration, :error, '[]', '[]', :body)",
            delivery_id=delivery_id,
            id=f"{number:012}",
            at=at,
            duration=duration,
            error=None if is_last and status == "delivered" else "timeout",
            body=b"",
        )


async def test_deliveries_of_an_endpoint_are_summed_by_hour_and_by_day(
    harness: DeliveryHarness,
) -> None:
    endpoint_id, other = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    now = (now_ms() // DAY_MS) * DAY_MS + 5_000

    async def add(age: int, status: str, *durations: int, to: str = endpoint_id) -> None:
        at = now - age
        await harness.db.transact(_insert_delivery, to, at, status, list(durations))

    for duration in range(1, 11):
        await add(0, "delivered", 15_000, duration * 10)
    await add(1, "failed", 15_000)
    await add(2, "pending", 15_000)
    await add(3 * DAY_MS, "delivered", 7_000)
    await add(0, "failed", 9_000, to=other)
    day = await load_record(harness.db, endpoint_id, "24h", now=now)
    assert len(day.buckets) == 24
    assert [(each.delivered, each.failed) for each in day.buckets[-2:]] == [(0, 0), (10, 1)]
    assert (day.total.median_ms, day.total.p95_ms) == (50, 100)
    assert day.total.success_rate == 10 / 11
    month = await load_record(harness.db, endpoint_id, "30d", now=now)
    assert [(each.delivered, each.p95_ms) for each in month.buckets if each.delivered] == [
        (1, 7_000),
        (10, 100),
    ]
    since = await load_record(harness.db, endpoint_id, "30d", created_at=now, now=now)
    assert [each.delivered for each in since.buckets if each.delivered] == [10]


async def test_durations_are_those_of_some_deliveries_of_each_hour(
    harness: DeliveryHarness,
) -> None:
    endpoint_id = await harness.endpoint("org_a")
    now = now_ms()
    for _ in range(SAMPLES_PER_HOUR):
        await harness.db.transact(_insert_delivery, endpoint_id, now - 2, "delivered", [10])
    await harness.db.transact(_insert_delivery, endpoint_id, now - 1, "delivered", [9_000])
    total = (await load_record(harness.db, endpoint_id, "7d", now=now)).total
    assert (total.delivered, total.p95_ms) == (SAMPLES_PER_HOUR + 1, 10)

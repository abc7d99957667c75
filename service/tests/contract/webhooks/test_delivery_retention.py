"""Retention of deliveries, their attempts and events, on both stores."""

from typing import Any

import pytest

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.events import PING, TEST_SEQUENCE
from agentjobs.webhooks.redelivery import redeliver
from agentjobs.webhooks.retention import prune_deliveries
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from tests.support.deliveries import DeliveryHarness, attempt, organization_with_id
from tests.support.jobs import JobHarness
from tests.support.pruning import prune_and_count


def in_days(days: int) -> int:
    return now_ms() + days * DAY_MS


async def count(db: Database, table: str) -> int:
    row = await db.fetch_one(f"SELECT COUNT(*) AS n FROM {table}")
    assert row is not None
    return int(row["n"])


@pytest.fixture
async def delivery_harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    await harness.endpoint("org_a")
    return harness


async def deliver_events(harness: DeliveryHarness, number: int = 1, **columns: Any) -> list[str]:
    for _ in range(number):
        await harness.event("org_a", new_id("job"))
    claimed = await harness.claim()
    await harness.record(*((delivery, attempt(200)) for delivery in claimed))
    for delivery in claimed:
        await harness.db.transact(_change, delivery.id, columns)
    return [delivery.id for delivery in claimed]


async def _change(tx: Transaction, delivery_id: str, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        await tx.execute(
            f"UPDATE deliveries SET {name} = :value WHERE id = :id", id=delivery_id, value=value
        )


async def test_old_deliveries_are_deleted_with_their_attempts_and_nothing_else(
    delivery_harness: DeliveryHarness,
) -> None:
    await deliver_events(delivery_harness, 3)
    db = delivery_harness.db
    assert await prune_deliveries(db, 30, in_days(29)) == 0
    assert await prune_deliveries(db, 30, in_days(31)) == 3
    assert await count(db, "deliveries") == 0
    assert await count(db, "delivery_attempts") == 0
    assert await count(db, "events") == 3


async def test_zero_days_keeps_deliveries_forever(delivery_harness: DeliveryHarness) -> None:
    await deliver_events(delivery_harness)
    assert await prune_deliveries(delivery_harness.db, 0, in_days(10_000)) == 0


async def test_a_pending_delivery_is_kept_however_old(delivery_harness: DeliveryHarness) -> None:
    delivery_id, _ = await deliver_events(delivery_harness, 2)
    await redeliver(delivery_harness.db, organization_with_id("org_a"), delivery_id)
    await delivery_harness.event("org_a", "job_new")
    assert await prune_deliveries(delivery_harness.db, 30, in_days(31)) == 1
    assert delivery_id in await delivery_harness.statuses()
    assert await count(delivery_harness.db, "delivery_attempts") == 1
    assert await count(delivery_harness.db, "deliveries") == 2


async def test_a_redelivery_restarts_the_retention_period(
    delivery_harness: DeliveryHarness,
) -> None:
    delivery_id, _ = await deliver_events(delivery_harness, 2)
    await redeliver(delivery_harness.db, organization_with_id("org_a"), delivery_id)
    (again,) = await delivery_harness.claim_retries()
    await delivery_harness.record((again, attempt(200, at=in_days(29))))
    assert await prune_deliveries(delivery_harness.db, 30, in_days(31)) == 1
    assert list(await delivery_harness.statuses()) == [delivery_id]
    assert await count(delivery_harness.db, "delivery_attempts") == 2
    assert await prune_deliveries(delivery_harness.db, 30, in_days(58)) == 0
    assert await prune_deliveries(delivery_harness.db, 30, in_days(60)) == 1
    assert await count(delivery_harness.db, "delivery_attempts") == 0


async def test_old_pending_deliveries_do_not_hide_expired_ones(
    delivery_harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.webhooks.retention._PAGE_ROWS", 2)
    stay = await deliver_events(delivery_harness, 5, due_at=in_days(29))
    await deliver_events(delivery_harness, 3)
    assert await prune_deliveries(delivery_harness.db, 30, in_days(31)) == 3
    assert list(await delivery_harness.statuses()) == stay


@pytest.mark.parametrize("mark", [{"event": PING}, {"sequence": TEST_SEQUENCE}])
async def test_a_test_is_deleted_with_its_event(
    delivery_harness: DeliveryHarness, mark: dict[str, Any]
) -> None:
    await deliver_events(delivery_harness, 1, **mark)
    await deliver_events(delivery_harness)
    assert await prune_deliveries(delivery_harness.db, 30, in_days(31)) == 2
    assert await count(delivery_harness.db, "events") == 1


async def test_many_deliveries_are_deleted_in_batches(
    delivery_harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.webhooks.retention._PAGE_ROWS", 3)
    monkeypatch.setattr("agentjobs.webhooks.retention._BATCH_ROWS", 2)
    await deliver_events(delivery_harness, 8)
    assert await prune_deliveries(delivery_harness.db, 30, in_days(31)) == 8


async def finished_job(harness: JobHarness, sends: DeliveryHarness) -> str:
    """Creates and cancels a job and delivers both events."""
    caller = harness.callers.get("acme") or await harness.organization()
    if not await count(harness.db, "webhook_endpoints"):
        await sends.endpoint(caller.organization_id)
    job_id = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, job_id)
    for _ in range(2):
        await sends.record(*((delivery, attempt(200)) for delivery in await sends.claim()))
    return job_id


async def test_a_job_is_deleted_with_its_deliveries(harness: JobHarness) -> None:
    sends = DeliveryHarness(harness.db)
    await finished_job(harness, sends)
    assert await count(harness.db, "deliveries") == 2
    pruned = await prune_and_count(harness.db, in_days(8), log_days=0, job_days=7)
    assert pruned["jobs"] == 1
    for table in ("events", "deliveries", "delivery_attempts"):
        assert await count(harness.db, table) == 0


async def test_a_job_is_kept_while_one_of_its_deliveries_is_pending(harness: JobHarness) -> None:
    sends = DeliveryHarness(harness.db)
    job_id = await finished_job(harness, sends)
    await finished_job(harness, sends)
    caller = harness.callers["acme"]
    rows = await harness.db.fetch_all("SELECT id FROM deliveries WHERE job_id = :id", id=job_id)
    await redeliver(harness.db, organization_with_id(caller.organization_id), rows[0]["id"])
    assert (await prune_and_count(harness.db, in_days(8), log_days=0, job_days=7))["jobs"] == 1
    (again,) = await sends.claim_retries()
    assert again.job_id == job_id
    await sends.record((again, attempt(200)))
    assert (await prune_and_count(harness.db, in_days(8), log_days=0, job_days=7))["jobs"] == 1
    assert await count(harness.db, "deliveries") == 0

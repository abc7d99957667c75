"""Redelivery of single and failed deliveries, on both stores."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION
from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs.webhooks.events import PING, TEST_SEQUENCE, TOPIC
from agentjobs.webhooks.redelivery import Redelivered, redeliver, redeliver_failed
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from tests.support.deliveries import DeliveryHarness, attempt, organization_with_id
from tests.support.stores import until


@pytest.fixture
async def harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    return harness


async def make_failed_deliveries(
    harness: DeliveryHarness, *, jobs: int = 1, at: int | None = None
) -> list[str]:
    """Creates one delivery per job, each out of retries at `at`."""
    for _ in range(jobs):
        await harness.event("org_a", new_id("job"))
    claimed = await harness.claim()
    await harness.record(
        *((replace(delivery, failures=3), attempt(500, at=at)) for delivery in claimed)
    )
    delivery_ids = [delivery.id for delivery in claimed]
    statuses = await harness.statuses()
    assert {statuses[delivery_id] for delivery_id in delivery_ids} == {"failed"}
    return delivery_ids


async def test_a_failed_delivery_is_redelivered_with_all_retries(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    event_id = (await harness.row(delivery_id))["event_id"]
    await redeliver(harness.db, organization_with_id("org_a"), delivery_id)
    (again,) = await harness.claim_retries()
    assert (again.id, again.event_id, again.attempts) == (delivery_id, event_id, 1)
    assert again.failures == 0
    await harness.record((again, attempt(500)))
    assert (await harness.row(delivery_id))["status"] == "pending"


async def test_a_successful_delivery_can_be_redelivered(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (delivery,) = await harness.claim()
    await harness.record((delivery, attempt(200)))
    await redeliver(harness.db, organization_with_id("org_a"), delivery.id)
    assert [again.id for again in await harness.claim_retries()] == [delivery.id]


async def test_redelivering_a_pending_retry_makes_it_due_now(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (delivery,) = await harness.claim()
    await harness.record((delivery, attempt(500)))
    assert await harness.claim_retries() == []
    await redeliver(harness.db, organization_with_id("org_a"), delivery.id)
    assert [again.id for again in await harness.claim_retries()] == [delivery.id]


async def test_senders_are_notified(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    notifications: list[str] = []
    harness.db.changes.on(TOPIC, lambda: notifications.append(TOPIC))
    await redeliver(harness.db, organization_with_id("org_a"), delivery_id)
    await until(lambda: bool(notifications))


async def test_a_delivery_being_sent_cannot_be_redelivered(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (delivery,) = await harness.claim()
    await assert_refused(harness, delivery.id, "delivery_in_progress")
    await harness.record((delivery, attempt(200)))
    assert (await harness.row(delivery.id))["status"] == "delivered"


@pytest.mark.parametrize(
    ("change", "code", "advice"),
    [
        ({"disabled_at": 1, "disabled_reason": "gone"}, "endpoint_disabled", "webhooks enable"),
        ({"removed_at": 1}, "endpoint_removed", "webhooks add"),
    ],
)
async def test_deliveries_of_a_closed_endpoint_cannot_be_redelivered(
    harness: DeliveryHarness, change: dict[str, object], code: str, advice: str
) -> None:
    endpoint_id = await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    await harness.change_endpoint(endpoint_id, **change)
    message = await assert_refused(harness, delivery_id, code)
    assert advice in message
    assert " --org org_a`" in message
    assert await redeliver_failed(harness.db, "org_a", 0) == Redelivered(0, 1)
    assert (await harness.row(delivery_id))["status"] == "failed"


async def test_another_organizations_delivery_is_not_found(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    with pytest.raises(Problem) as raised:
        await redeliver(harness.db, organization_with_id("org_b"), delivery_id)
    assert raised.value.code == "delivery_not_found"
    await assert_refused(harness, "dlv_none", "delivery_not_found")
    assert await redeliver_failed(harness.db, "org_b", 0) == Redelivered(0, 0)


@pytest.mark.parametrize("mark", [f"event = '{PING}'", f"sequence = {TEST_SEQUENCE}"])
async def test_a_test_cannot_be_redelivered(harness: DeliveryHarness, mark: str) -> None:
    await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    await harness.db.transact(_mark, delivery_id, mark)
    endpoint_id = (await harness.row(delivery_id))["endpoint_id"]
    command = f"`agentjobs webhooks test {endpoint_id} --org org_a`"
    assert command in await assert_refused(harness, delivery_id, "ping_not_redelivered")
    assert await redeliver_failed(harness.db, "org_a", 0) == Redelivered(0, 0)


async def test_only_deliveries_that_failed_since_a_time_are_redelivered(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    long_ago = now_ms() - 3_600_000
    old = await make_failed_deliveries(harness, jobs=2, at=long_ago)
    recent = await make_failed_deliveries(harness, jobs=7)
    await harness.event("org_a", "job_good")
    (good,) = await harness.claim()
    await harness.record((good, attempt(200)))

    done = await redeliver_failed(harness.db, "org_a", now_ms() - 60_000)
    assert done == Redelivered(7, 0)
    statuses = await harness.statuses()
    assert {statuses[delivery_id] for delivery_id in recent} == {"pending"}
    assert {statuses[delivery_id] for delivery_id in old} == {"failed"}
    assert statuses[good.id] == "delivered"
    assert await redeliver_failed(harness.db, "org_a", long_ago) == Redelivered(2, 0)
    assert await redeliver_failed(harness.db, "org_a", 0) == Redelivered(0, 0)


async def test_many_deliveries_are_redelivered_in_batches(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.webhooks.redelivery._BATCH", 3)
    await harness.endpoint("org_a")
    delivery_ids = await make_failed_deliveries(harness, jobs=8)
    assert await redeliver_failed(harness.db, "org_a", 0) == Redelivered(8, 0)
    statuses = await harness.statuses()
    assert {statuses[delivery_id] for delivery_id in delivery_ids} == {"pending"}


async def test_many_batches_are_one_entry_in_the_audit_log(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.webhooks.redelivery._BATCH", 3)
    await harness.endpoint("org_a")
    await make_failed_deliveries(harness, jobs=8)
    await redeliver_failed(harness.db, "org_a", 0)
    assert await audited_counts(harness) == [8]


async def test_an_interrupted_redelivery_is_in_the_audit_log(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.webhooks.redelivery._BATCH", 3)
    await harness.endpoint("org_a")
    await make_failed_deliveries(harness, jobs=8)
    fetch_all, queries = harness.db.fetch_all, []

    async def fail_on_third_query(sql: str, /, **parameters: Any) -> Any:
        queries.append(sql)
        if len(queries) == 3:
            raise StoreUnavailable("away")
        return await fetch_all(sql, **parameters)

    with monkeypatch.context() as broken:
        broken.setattr(harness.db, "fetch_all", fail_on_third_query)
        with pytest.raises(StoreUnavailable):
            await redeliver_failed(harness.db, "org_a", 0)
    assert await audited_counts(harness) == [6]


async def audited_counts(harness: DeliveryHarness) -> list[int]:
    """Returns the delivery count of each audit record, oldest first."""
    filters = AuditFilter(action="webhook.redelivered")
    records = await list_entries(harness.db, "org_a", filters, limit=100)
    return [record.details["count"] for record in reversed(records)]


async def test_redelivery_can_be_limited_to_one_endpoint(harness: DeliveryHarness) -> None:
    first, second = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    await make_failed_deliveries(harness, jobs=2)
    assert await redeliver_failed(harness.db, "org_a", 0, first) == Redelivered(2, 0)
    assert {again.endpoint_id for again in await harness.claim_retries()} == {first}
    assert await redeliver_failed(harness.db, "org_b", 0, second) == Redelivered(0, 0)


async def test_commands_for_the_default_organization_are_short(harness: DeliveryHarness) -> None:
    endpoint_id = await harness.endpoint("org_a")
    (delivery_id,) = await make_failed_deliveries(harness)
    await harness.change_endpoint(endpoint_id, disabled_at=1, disabled_reason="gone")
    default = replace(organization_with_id("org_a"), name=DEFAULT_ORGANIZATION)
    with pytest.raises(Problem, match=f"`agentjobs webhooks enable {endpoint_id}`"):
        await redeliver(harness.db, default, delivery_id)


async def assert_refused(harness: DeliveryHarness, delivery_id: str, code: str) -> str:
    with pytest.raises(Problem) as raised:
        await redeliver(harness.db, organization_with_id("org_a"), delivery_id)
    assert raised.value.code == code
    return raised.value.message


async def _mark(tx: Transaction, delivery_id: str, mark: str) -> None:
    await tx.execute(f"UPDATE deliveries SET {mark} WHERE id = :id", id=delivery_id)

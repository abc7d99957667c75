"""Deliveries are created with their events, claimed fairly and in order, and recorded once."""

import asyncio
from collections import Counter

import pytest

from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks import maintenance, queue
from agentjobs.webhooks.concurrency import SlotPool, Slots
from agentjobs.webhooks.events import EVENTS, JOB_COMPLETED, JOB_FAILED, JOB_QUEUED
from agentjobs.webhooks.maintenance import bring_retries_forward, run_maintenance
from agentjobs.webhooks.queue import release
from agentjobs.webhooks.signing import signing_at
from agentjobs_runtime.clock import DAY_MS, now_ms
from tests.support.clock_shift import ShiftClock
from tests.support.deliveries import DeliveryHarness, attempt, record_event


@pytest.fixture
async def harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    return harness


async def test_an_event_creates_a_delivery_for_each_subscribed_endpoint(
    harness: DeliveryHarness,
) -> None:
    everything = await harness.endpoint("org_a")
    completions = await harness.endpoint("org_a", events='["job.completed"]')
    disabled = await harness.endpoint("org_a")
    await harness.change_endpoint(disabled, disabled_at=1, disabled_reason="by_hand")
    removed = await harness.endpoint("org_a")
    await harness.change_endpoint(removed, removed_at=1)
    await harness.organization("org_b")
    await harness.endpoint("org_b")

    await harness.event("org_a", "job_1", 1, JOB_QUEUED)
    first = await harness.claim()
    await harness.record(*((delivery, attempt()) for delivery in first))
    await harness.event("org_a", "job_1", 2, JOB_COMPLETED)
    second = await harness.claim()

    assert [delivery.endpoint_id for delivery in first] == [everything]
    assert {delivery.endpoint_id for delivery in second} == {everything, completions}
    assert len({delivery.body for delivery in second}) == 1
    assert len({delivery.event_id for delivery in second}) == 1


async def test_an_event_and_its_deliveries_are_one_commit(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")

    with pytest.raises(ZeroDivisionError):
        await harness.db.transact(_record_and_fail)

    assert await harness.statuses() == {}
    assert await harness.db.fetch_all("SELECT id FROM events") == []


async def _record_and_fail(tx: Transaction) -> None:
    await record_event(
        tx,
        JOB_QUEUED,
        organization_id="org_a",
        job_id="job_1",
        sequence=1,
        repo="acme/shop",
        pr_url=None,
        at_ms=now_ms(),
    )
    assert len(await tx.fetch_all("SELECT id FROM events")) == 1
    assert len(await tx.fetch_all("SELECT id FROM deliveries")) == 1
    raise ZeroDivisionError


async def test_first_attempts_of_one_job_are_claimed_in_order_and_one_at_a_time(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    for sequence, event in enumerate(EVENTS, 1):
        await harness.event("org_a", "job_1", sequence, event)

    claimed_ids = []
    while claimed := await harness.claim():
        assert len(claimed) == 1
        assert await harness.claim() == []
        claimed_ids.append(claimed[0].sequence)
        await harness.record((claimed[0], attempt(500)))

    assert claimed_ids == [1, 2, 3, 4, 5]


async def test_a_waiting_retry_does_not_block_later_events(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1", 1)
    (first,) = await harness.claim()
    await harness.record((first, attempt(500)))
    await harness.event("org_a", "job_1", 2)

    (second,) = await harness.claim()

    assert second.sequence == 2
    assert await harness.claim_retries() == []


async def test_one_event_is_claimed_for_two_endpoints_at_once(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")

    assert len(await harness.claim()) == 2


async def test_several_senders_never_claim_the_same_delivery(harness: DeliveryHarness) -> None:
    for _ in range(4):
        await harness.endpoint("org_a")
    for number in range(20):
        await harness.event("org_a", f"job_{number:02}")
    senders = [DeliveryHarness(harness.db, Slots(100, 8), f"snd_{n}") for n in range(6)]

    claimed = await asyncio.gather(*(sender.claim() for sender in senders))

    ids = [delivery.id for batch in claimed for delivery in batch]
    assert len(ids) == len(set(ids))
    assert ids


async def test_an_endpoint_with_a_long_queue_leaves_slots_for_others(
    harness: DeliveryHarness,
) -> None:
    for number in range(50):
        if number == 10:
            late = await harness.endpoint("org_a", events='["job.failed"]')
        if number == 0:
            busy = await harness.endpoint("org_a")
        await harness.event("org_a", f"job_{number:02}")
    await harness.event("org_a", "job_99", 1, JOB_FAILED)
    harness.slots = Slots(4, 8)

    claimed = [delivery.endpoint_id for delivery in await harness.claim()]

    assert claimed.count(late) == 1
    assert claimed.count(busy) == 2  # a quarter is for other organizations


async def test_claims_are_limited_per_endpoint(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    for number in range(50):
        await harness.event("org_a", f"job_{number:02}")
    harness.slots = Slots(100, 8)

    claimed = await harness.claim()

    assert len(claimed) == 8
    assert [delivery.job_id for delivery in claimed] == [f"job_{number:02}" for number in range(8)]


async def test_excluded_endpoints_are_not_claimed(harness: DeliveryHarness) -> None:
    locked = await harness.endpoint("org_a")
    other = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")

    claimed = await harness.claim(excluded_endpoints=frozenset({locked}))

    assert [delivery.endpoint_id for delivery in claimed] == [other]


async def test_a_success_is_recorded_with_its_attempt_and_not_claimed_again(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()

    await harness.record((claimed, attempt(204)))

    row = await harness.row(claimed.id)
    assert (row["status"], row["attempts"], row["failures"]) == ("delivered", 1, 0)
    assert row["lease_owner"] is None
    assert await harness.claim() == []
    assert await harness.claim_retries(now=now_ms() + DAY_MS) == []
    (logged,) = await harness.db.fetch_all("SELECT * FROM delivery_attempts")
    assert logged["delivery_id"] == claimed.id
    assert logged["status_code"] == 204
    assert bytes(logged["response_body"]) == b"noted"
    assert (await harness.endpoint_row(endpoint))["failing_since"] is None


async def test_a_delivery_fails_after_the_first_attempt_and_three_retries(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    now = now_ms()
    for _ in range(3):
        await harness.record((claimed, attempt(500, at=now)))
        assert await harness.claim_retries(now=now) == []
        now = (await harness.row(claimed.id))["due_at"]
        assert await harness.claim_retries(now=now - 1) == []
        (claimed,) = await harness.claim_retries(now=now)
    await harness.record((claimed, attempt(500, at=now)))

    row = await harness.row(claimed.id)
    assert (row["status"], row["attempts"]) == ("failed", 4)
    assert await harness.claim_retries(now=now + DAY_MS) == []


async def test_a_sender_whose_lease_expired_only_writes_the_log(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (lost,) = await harness.claim()
    await harness.expire_leases()
    await run_maintenance(harness.db)
    successor = DeliveryHarness(harness.db, Slots(10, 1), "snd_b")
    (claimed,) = await successor.claim()

    await harness.record((lost, attempt(500)))

    row = await harness.row(lost.id)
    assert (row["status"], row["attempts"], row["lease_owner"]) == ("pending", 0, "snd_b")
    assert len(await harness.db.fetch_all("SELECT 1 FROM delivery_attempts")) == 1
    await successor.record((claimed, attempt(200)))
    assert (await harness.row(lost.id))["status"] == "delivered"


async def test_recording_an_attempt_is_idempotent(harness: DeliveryHarness) -> None:
    from agentjobs.webhooks.record import FinishedAttempt, record
    from agentjobs.webhooks.retries import decide_outcome

    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    failure = attempt(500)
    finished = FinishedAttempt(claimed, failure, decide_outcome(failure, 0, (5,)))

    for _ in range(2):
        await harness.db.transact(record, [finished], owner="snd_a", disable_days=5)

    assert (await harness.row(claimed.id))["attempts"] == 1
    assert len(await harness.db.fetch_all("SELECT 1 FROM delivery_attempts")) == 1


async def test_a_released_delivery_can_be_claimed_at_once(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    claimed = await harness.claim()

    await harness.db.transact(release, claimed, "snd_a")

    (again,) = await harness.claim()
    assert again.id == claimed[0].id
    assert again.fence > claimed[0].fence


async def test_410_disables_the_endpoint_and_fails_its_waiting_deliveries(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    for number in range(3):
        await harness.event("org_a", f"job_{number}")
    harness.slots = Slots(10, 2)
    first, under_way = await harness.claim()

    await harness.record((first, attempt(410)))

    row = await harness.endpoint_row(endpoint)
    assert row["disabled_reason"] == "gone"
    assert sorted((await harness.statuses()).values()) == ["failed", "failed", "pending"]
    await harness.record((under_way, attempt(500)))
    assert set((await harness.statuses()).values()) == {"failed"}


async def test_an_endpoint_that_failed_for_five_days_is_disabled_by_the_next_failed_delivery(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    await harness.change_endpoint(endpoint, failing_since=now_ms() - 5 * DAY_MS)
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    now = now_ms()
    for _ in range(3):
        await harness.record((claimed, attempt(500, at=now)))
        assert (await harness.endpoint_row(endpoint))["disabled_reason"] is None
        now = (await harness.row(claimed.id))["due_at"]
        (claimed,) = await harness.claim_retries(now=now)

    await harness.record((claimed, attempt(None, at=now, error="timeout")))

    assert (await harness.endpoint_row(endpoint))["disabled_reason"] == "failing"


async def test_a_success_resets_the_failing_time(harness: DeliveryHarness) -> None:
    endpoint = await harness.endpoint("org_a")
    await harness.change_endpoint(endpoint, failing_since=now_ms() - 6 * DAY_MS)
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()

    await harness.record((claimed, attempt(200)))

    row = await harness.endpoint_row(endpoint)
    assert row["failing_since"] is None
    assert row["last_success_at"] is not None


async def test_a_delivery_to_an_endpoint_disabled_meanwhile_fails(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    for number in range(3):
        await harness.event("org_a", f"job_{number}")
    await harness.change_endpoint(endpoint, disabled_at=1, disabled_reason="by_hand")
    harness.slots = Slots(10, 1)

    assert await harness.claim() == []
    await run_maintenance(harness.db)

    assert set((await harness.statuses()).values()) == {"failed"}


async def test_a_pending_secret_is_promoted_when_it_is_due(harness: DeliveryHarness) -> None:
    due = await harness.endpoint("org_a")
    await harness.change_endpoint(due, pending_sealed=b"next", pending_key_id="n", promote_at=1)
    later = await harness.endpoint("org_a")
    await harness.change_endpoint(
        later, pending_sealed=b"next", pending_key_id="n", promote_at=now_ms() + DAY_MS
    )

    await run_maintenance(harness.db)

    row = await harness.endpoint_row(due)
    assert (bytes(row["sealed"]), row["key_id"], row["pending_sealed"]) == (b"next", "n", None)
    assert bytes((await harness.endpoint_row(later))["sealed"]) == b"sealed"


async def test_every_endpoint_is_served_however_long_the_queues_of_others(
    harness: DeliveryHarness,
) -> None:
    for _ in range(70):
        await harness.endpoint("org_a")
    for number in range(3):
        await harness.event("org_a", f"job_{number}")
    harness.slots = Slots(1, 1)

    claimed_ids: list[str] = []
    for _ in range(72):
        for claimed in await harness.claim():
            await harness.record((claimed, attempt()))
            claimed_ids.append(claimed.endpoint_id)

    assert len(set(claimed_ids)) == 70


async def test_deliveries_that_are_not_claimed_are_left_to_other_senders(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    for number in range(8):
        await harness.event("org_a", f"job_{number}")
    small = DeliveryHarness(harness.db, Slots(1, 1), "snd_small")

    own, others = await asyncio.gather(small.claim(), harness.claim())

    assert len(own) <= 1
    assert len(others) >= 7 - len(own)


async def test_senders_that_record_at_once_do_not_deadlock(
    harness: DeliveryHarness,
) -> None:
    first, second = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    senders = [DeliveryHarness(harness.db, Slots(2, 1), f"snd_{name}") for name in "ab"]
    for number in range(10):
        await harness.event("org_a", f"job_{number}")
        await harness.event("org_a", f"job_{number}_too")
        batches = []
        for sender, healthy in zip(senders, (first, second), strict=True):
            claimed = await sender.claim()
            assert {delivery.endpoint_id for delivery in claimed} == {first, second}
            batches.append(
                [
                    (delivery, attempt(200 if delivery.endpoint_id == healthy else 500))
                    for delivery in claimed
                ]
            )

        await asyncio.gather(
            *(sender.record(*batch) for sender, batch in zip(senders, batches, strict=True))
        )


async def test_a_delivery_without_its_event_fails(harness: DeliveryHarness) -> None:
    async def forget_events(tx: Transaction) -> None:
        await tx.execute("DELETE FROM events")

    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.db.transact(forget_events)

    assert await harness.claim() == []

    assert set((await harness.statuses()).values()) == {"failed"}


async def test_deliveries_fail_at_the_time_their_endpoint_is_disabled(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.event("org_a", "job_2")
    (delivery,) = (await harness.claim())[:1]
    later = now_ms() + DAY_MS

    await harness.record((delivery, attempt(410, at=later)))

    rows = await harness.db.fetch_all("SELECT due_at FROM deliveries WHERE status = 'failed'")
    assert all(row["due_at"] >= later for row in rows)
    assert (await harness.endpoint_row(endpoint))["disabled_at"] >= later


async def test_a_successful_ping_keeps_the_reason_of_a_disabled_endpoint(
    harness: DeliveryHarness,
) -> None:
    endpoint = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    await harness.change_endpoint(
        endpoint, disabled_at=2, disabled_reason="failing", failing_since=1
    )

    await harness.record((claimed, attempt(200)))

    row = await harness.endpoint_row(endpoint)
    assert row["failing_since"] == 1
    assert row["last_success_at"] is not None


async def test_maintenance_does_not_expire_leases_in_progress(harness: DeliveryHarness) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.event("org_a", "job_2")
    own, lost = await harness.claim()
    await harness.expire_leases()

    await run_maintenance(harness.db, [own.id])

    assert (await harness.row(own.id))["lease_owner"] == "snd_a"
    assert (await harness.row(lost.id))["lease_owner"] is None
    await harness.record((own, attempt(200)))
    assert (await harness.row(own.id))["status"] == "delivered"


async def test_deliveries_wait_no_longer_because_the_clock_was_set_back(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.event("org_a", "job_2")
    failed, lost = await harness.claim()
    await harness.record((failed, attempt(500)))
    await harness.db.transact(_move_an_hour_ahead)
    assert await harness.claim_retries() == []

    await run_maintenance(harness.db, max_lease_ms=120_000)
    assert not await bring_retries_forward(harness.db, max_wait_ms=120_000)

    assert (await harness.row(lost.id))["lease_owner"] is None
    assert [each.id for each in await harness.claim_retries()] == [failed.id]


async def _move_an_hour_ahead(tx: Transaction) -> None:
    await tx.execute(
        "UPDATE deliveries SET due_at = due_at + 3600000,"
        " lease_expires_at = lease_expires_at + 3600000"
    )


async def test_a_long_queue_of_a_closed_endpoint_is_failed_in_batches(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await harness.endpoint("org_a")
    for number in range(5):
        await harness.event("org_a", f"job_{number}")
    await harness.change_endpoint(endpoint, disabled_at=1, disabled_reason="by_hand")
    for module in (maintenance, queue):
        monkeypatch.setattr(module, "FAIL_BATCH", 2)

    steps = [await run_maintenance(harness.db) for _ in range(3)]

    assert steps == [True, True, False]
    assert set((await harness.statuses()).values()) == {"failed"}


async def test_endpoints_of_a_saturated_organization_share_its_slots(
    harness: DeliveryHarness,
) -> None:
    endpoints = [await harness.endpoint("org_a") for _ in range(8)]
    for number in range(4):
        await harness.event("org_a", f"job_{number}")
    harness.slots = Slots(4, 4)
    busy = await harness.claim()
    for delivery in busy:
        harness.slots.acquire(SlotPool("first"), delivery.endpoint_id, "org_a")
    assert len(busy) == 3
    assert await harness.claim() == []

    served = Counter(delivery.endpoint_id for delivery in busy)
    for _ in range(13):
        ended = busy.pop(0)
        await harness.record((ended, attempt()))
        harness.slots.release(SlotPool("first"), ended.endpoint_id, "org_a")
        (delivery,) = await harness.claim()
        harness.slots.acquire(SlotPool("first"), delivery.endpoint_id, "org_a")
        busy.append(delivery)
        served[delivery.endpoint_id] += 1

    assert served == Counter(dict.fromkeys(endpoints, 2))


async def test_a_single_delivery_is_found_behind_a_hundred_endpoints_of_another_organization(
    harness: DeliveryHarness,
) -> None:
    for _ in range(100):
        await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.event("org_a", "job_2")
    await harness.organization("org_b")
    single_endpoint = await harness.endpoint("org_b")
    await harness.event("org_b", "job_3")
    harness.slots = Slots(4, 1)

    claimed = await harness.claim()

    assert single_endpoint in {delivery.endpoint_id for delivery in claimed}
    assert len(claimed) == 4


async def test_all_waiting_endpoints_are_found_however_many_there_are(
    harness: DeliveryHarness,
) -> None:
    organizations = [await harness.organization(f"org_{number:02}") for number in range(20)]
    for organization in organizations:
        await harness.endpoint(organization)
        await harness.event(organization, f"job_of_{organization}")
    for _ in range(80):
        await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    harness.slots = Slots(1_000, 8)

    endpoint_ids: list[str] = []
    for _ in range(12):
        endpoint_ids += [delivery.endpoint_id for delivery in await harness.claim()]

    assert len(set(endpoint_ids)) == 100


async def test_a_scan_that_finds_too_many_endpoints_continues_with_the_others(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "_MAX_ENDPOINTS", 3)
    queue._candidates_sql.cache_clear()
    for organization in ("org_a", "org_b", "org_c"):
        if organization != "org_a":
            await harness.organization(organization)
        for _ in range(3):
            await harness.endpoint(organization)
        await harness.event(organization, f"job_of_{organization}")

    endpoint_ids = [each.endpoint_id for _ in range(4) for each in await harness.claim()]

    queue._candidates_sql.cache_clear()
    assert len(set(endpoint_ids)) == 9


async def test_a_scan_that_resumed_behind_an_endpoint_wraps_around(
    harness: DeliveryHarness,
) -> None:
    first, second = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    harness.slots = Slots(1, 1)
    (delivery,) = await harness.claim()
    assert delivery.endpoint_id == first
    await harness.record((delivery, attempt()))
    # Another sender takes the deliveries that did not fit, and a newer one is ahead of them.
    other = DeliveryHarness(harness.db, Slots(10, 1), "snd_b")
    assert [each.endpoint_id for each in await other.claim()] == [second]
    await harness.change_endpoint(second, disabled_at=1, disabled_reason="by_hand")
    await harness.event("org_a", "job_2")

    deliveries = [*await harness.claim(), *await harness.claim()]

    assert [delivery.endpoint_id for delivery in deliveries] == [first]


async def test_a_sender_with_a_wrong_clock_promotes_secrets_by_the_clock_of_the_database(
    harness: DeliveryHarness, shift_clock: ShiftClock
) -> None:
    endpoint_id = await harness.endpoint("org_a")
    promote_at = now_ms() + DAY_MS // 2
    await harness.change_endpoint(endpoint_id, pending_sealed=b"new", promote_at=promote_at)
    await harness.event("org_a", "job_1")

    shift_clock(DAY_MS / 1_000)
    (delivery,) = await harness.claim(now=await harness.db.clock_ms())

    signing = signing_at(delivery.secrets, await harness.db.clock_ms())
    is_only_clock = harness.db.engine == "sqlite"
    assert (signing.main == b"new") == is_only_clock

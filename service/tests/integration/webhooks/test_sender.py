"""The sender on real sockets and both stores: order, concurrency, retries and leases."""

import asyncio
import hashlib
import hmac
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks import sender
from agentjobs.webhooks.attempt import WebhookClient
from agentjobs.webhooks.concurrency import AttemptKind
from agentjobs.webhooks.sender import Sender
from agentjobs.webhooks.signing import SecretOpener, new_secret
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.settings import Settings, load
from tests.support.clock_shift import clock_shifter
from tests.support.deliveries import DeliveryHarness
from tests.support.receiver import Received, Receiver, receiver
from tests.support.stores import opened, until

QUICK = {
    "AGENTJOBS_WEBHOOK_RETRY_SECONDS": "0.05,0.05,0.05",
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "2",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "1",
    "AGENTJOBS_WEBHOOK_LEASE_SECONDS": "7",
}


@dataclass
class SenderHarness:
    db: Database
    settings: Settings
    deliveries: DeliveryHarness

    @property
    def keys(self) -> SealingKeys:
        return SealingKeys.load(self.settings)

    async def endpoint(self, url: str, organization_id: str = "org_a") -> tuple[str, str]:
        endpoint_id, secret = await self.deliveries.endpoint(organization_id), new_secret()
        sealed = self.keys.seal(secret, "webhook", organization_id, endpoint_id)
        await self.deliveries.change_endpoint(endpoint_id, url=url, sealed=sealed.data)
        return endpoint_id, secret

    async def events(self, jobs: int, each: int = 1) -> None:
        for sequence in range(1, each + 1):
            for number in range(jobs):
                await self.deliveries.event("org_a", f"job_{number:03}", sequence)

    async def wait_until_settled(self) -> dict[str, int]:
        """Waits until no delivery is pending and returns the count of each status."""
        while True:
            statuses = (await self.deliveries.statuses()).values()
            if "pending" not in statuses:
                return dict(Counter(statuses))
            await asyncio.sleep(0.01)  # polling interval


class CountedCalls:
    def __init__(self, call: Callable[[list[AttemptKind]], Awaitable[None]]) -> None:
        self._call = call
        self.count = 0

    async def __call__(self, kinds: list[AttemptKind]) -> None:
        self.count += 1
        await self._call(kinds)


@pytest.fixture
async def harness(database: Database, tmp_path: Path) -> SenderHarness:
    deliveries = DeliveryHarness(database)
    await deliveries.organization("org_a")
    return SenderHarness(database, load(QUICK, data_dir=str(tmp_path)), deliveries)


@pytest.fixture
def receiving() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@asynccontextmanager
async def sending(
    harness: SenderHarness, db: Database | None = None, *, drain_immediately: bool = False
) -> AsyncIterator[Sender]:
    client = WebhookClient.from_settings(harness.settings, AllowList.parse(["127.0.0.0/8"]))
    sending = Sender(db or harness.db, SecretOpener(harness.keys), client, harness.settings)
    running = {asyncio.create_task(half.run()) for half in (sending, sending.recorder)}
    try:
        yield sending
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        force_stop = asyncio.Event()
        if drain_immediately:
            force_stop.set()
        await sending.drain(5, force_stop)
        await client.close()


async def test_the_stored_bytes_arrive_with_both_signatures(
    harness: SenderHarness, receiving: Receiver
) -> None:
    _, secret = await harness.endpoint(receiving.url)
    await harness.events(jobs=1)

    async with sending(harness):
        assert await harness.wait_until_settled() == {"delivered": 1}

    (request,) = receiving.received
    stored = await harness.db.fetch_one("SELECT id, body FROM events")
    assert stored is not None
    assert request.body == bytes(stored["body"])
    digest = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Service-Signature-256"] == f"sha256={digest}"
    assert request.headers["webhook-id"] == stored["id"]
    assert Webhook(secret).verify(request.body, dict(request.headers.items())) == request.payload


async def test_signatures_of_a_sender_with_a_wrong_clock_have_the_databases_time(
    harness: SenderHarness, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await harness.endpoint(receiving.url)
    await harness.events(jobs=1)
    clock_shifter(monkeypatch)(0 if harness.db.engine == "sqlite" else -3_600)

    async with sending(harness):
        assert await harness.wait_until_settled() == {"delivered": 1}

    (request,) = receiving.received
    assert Webhook(secret).verify(request.body, dict(request.headers.items())) == request.payload


async def test_retries_of_a_sender_with_a_wrong_clock_are_due_by_the_databases_clock(
    harness: SenderHarness, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiving.respond = lambda _: 500
    await harness.endpoint(receiving.url)
    await harness.events(jobs=1)
    clock_shifter(monkeypatch)(0 if harness.db.engine == "sqlite" else 3_600)

    async with sending(harness):
        assert await harness.wait_until_settled() == {"failed": 1}

    now = await harness.db.clock_ms()
    rows = await harness.db.fetch_all("SELECT at FROM delivery_attempts")
    assert len(rows) == 4
    assert all(abs(now - row["at"]) < 600_000 for row in rows)


async def test_a_sender_does_not_poll_for_its_own_retries(
    harness: SenderHarness, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiving.respond = lambda _: 500 if len(receiving.received) == 1 else 200
    harness.settings = load(
        {**QUICK, "AGENTJOBS_WEBHOOK_RETRY_SECONDS": "0.5"}, data_dir=harness.settings.data_dir
    )
    monkeypatch.setattr(sender, "_POLL_SECONDS", 600.0)
    await harness.endpoint(receiving.url)
    await harness.events(jobs=1)

    async with sending(harness):
        await until(lambda: len(receiving.received) == 2, within_seconds=60)


async def test_a_sender_wakes_up_for_a_new_delivery_and_reuses_its_connection(
    harness: SenderHarness, receiving: Receiver
) -> None:
    await harness.endpoint(receiving.url)
    async with sending(harness):
        for number in range(3):
            await harness.deliveries.event("org_a", f"job_{number}")
            await until(lambda: len(receiving.received) == number + 1)  # noqa: B023
            await harness.wait_until_settled()

    assert len({request.client_port for request in receiving.received}) == 1


async def test_events_of_a_job_arrive_in_order_despite_slow_responses(
    harness: SenderHarness, receiving: Receiver
) -> None:
    waits = Counter[str]()

    def answer(request: Received) -> int:
        waits[request.job_id] += 1
        threading.Event().wait(0.02 if waits[request.job_id] == 1 else 0)
        return 200

    receiving.respond = answer
    await harness.endpoint(receiving.url)
    await harness.events(jobs=6, each=5)

    async with sending(harness):
        assert await harness.wait_until_settled() == {"delivered": 30}

    for number in range(6):
        job_id = f"job_{number:03}"
        sequences = [request.sequence for request in receiving.received if request.job_id == job_id]
        assert sequences == [1, 2, 3, 4, 5]


async def test_500_three_times_and_then_200_is_delivered_by_the_last_retry(
    harness: SenderHarness, receiving: Receiver
) -> None:
    receiving.respond = lambda _: 500 if len(receiving.received) < 4 else 200
    await harness.endpoint(receiving.url)
    await harness.events(jobs=1)

    async with sending(harness) as sender:
        assert await harness.wait_until_settled() == {"delivered": 1}

    assert +sender.results == {"success": 1, "http_status": 3}
    assert len(receiving.received) == 4
    assert len({request.headers["webhook-id"] for request in receiving.received}) == 1
    assert len({request.headers["X-Service-Delivery"] for request in receiving.received}) == 1
    assert len({request.body for request in receiving.received}) == 1


async def test_a_delivery_that_always_fails_is_tried_four_times_and_logged_each_time(
    harness: SenderHarness, receiving: Receiver
) -> None:
    receiving.respond = lambda _: 503
    await harness.endpoint(receiving.url)
    await harness.events(jobs=2)

    async with sending(harness):
        assert await harness.wait_until_settled() == {"failed": 2}

    logged = await harness.db.fetch_all("SELECT * FROM delivery_attempts")
    assert len(receiving.received) == len(logged) == 8
    assert {row["status_code"] for row in logged} == {503}
    assert {row["address"] for row in logged} == {f"127.0.0.1:{receiving.port}"}


async def test_a_hanging_receiver_does_not_delay_others(
    harness: SenderHarness, receiving: Receiver
) -> None:
    release = threading.Event()

    def hang(_: Received) -> int:
        release.wait(20)
        return 200

    with receiver(hang) as dead:
        await harness.endpoint(dead.url)
        await harness.endpoint(receiving.url)
        await harness.events(jobs=40)
        async with sending(harness):
            await until(lambda: len(receiving.received) == 40)
            assert len(dead.received) <= harness.settings.webhook_endpoint_concurrency
            release.set()


async def test_several_senders_send_each_delivery_once(
    harness: SenderHarness, receiving: Receiver, database_url: str
) -> None:
    await harness.endpoint(receiving.url)
    await harness.events(jobs=50, each=2)

    async with (
        opened(database_url) as second,
        opened(database_url) as third,
        sending(harness),
        sending(harness, second),
        sending(harness, third),
    ):
        assert await harness.wait_until_settled() == {"delivered": 100}

    assert len(receiving.received) == 100
    assert len({request.headers["webhook-id"] for request in receiving.received}) == 100


async def test_deliveries_of_a_dead_sender_are_sent_again_with_the_same_id(
    harness: SenderHarness, receiving: Receiver
) -> None:
    await harness.endpoint(receiving.url)
    await harness.events(jobs=1)
    (lost,) = await harness.deliveries.claim()
    await harness.deliveries.expire_leases()

    async with sending(harness):
        assert await harness.wait_until_settled() == {"delivered": 1}

    (request,) = receiving.received
    assert request.headers["webhook-id"] == lost.event_id


async def test_deliveries_leased_by_a_live_sender_are_left_alone(
    harness: SenderHarness, receiving: Receiver
) -> None:
    await harness.endpoint(receiving.url)
    await harness.events(jobs=1)
    await harness.deliveries.claim()
    await harness.deliveries.event("org_a", "job_other")

    async with sending(harness):
        await until(lambda: len(receiving.received) == 1)

    assert receiving.received[0].job_id == "job_other"


async def test_a_delivery_whose_secret_cannot_be_opened_is_left_to_another_machine(
    harness: SenderHarness, receiving: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.endpoint(receiving.url)
    other_data = tmp_path / "other"
    other_data.mkdir()
    other_machine = SenderHarness(
        harness.db, load(QUICK, data_dir=str(other_data)), harness.deliveries
    )
    await harness.events(jobs=1)
    async with sending(other_machine):
        await until(lambda: "cannot be decrypted" in caplog.text)
    assert set((await harness.deliveries.statuses()).values()) == {"pending"}

    async with sending(harness):
        assert await harness.wait_until_settled() == {"delivered": 1}


async def test_a_drained_sender_releases_unfinished_deliveries(
    harness: SenderHarness, receiving: Receiver
) -> None:
    release = threading.Event()

    def hang(_: Received) -> int:
        release.wait(20)
        return 200

    receiving.respond = hang
    endpoint, _ = await harness.endpoint(receiving.url)
    await harness.events(jobs=1)
    async with sending(harness, drain_immediately=True):
        await until(lambda: len(receiving.received) == 1)
    release.set()

    (row,) = await harness.db.fetch_all("SELECT * FROM deliveries")
    assert (row["endpoint_id"], row["lease_owner"]) == (endpoint, None)
    assert (row["status"], row["attempts"]) == ("pending", 0)


async def test_many_retries_do_not_wait_for_one_poll_per_batch(
    harness: SenderHarness, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_POLL_SECONDS", 600.0)
    await harness.endpoint(receiving.url)
    await harness.events(jobs=40)
    async with sending(harness):
        await harness.wait_until_settled()

    await harness.db.transact(_make_all_due)
    async with sending(harness):
        await until(lambda: len(receiving.received) == 80, within_seconds=60)


async def test_a_sender_does_not_expire_its_own_late_leases(
    harness: SenderHarness, receiving: Receiver
) -> None:
    answered = threading.Event()

    def answer(_: Received) -> int:
        answered.wait(20)
        return 200

    receiving.respond = answer
    harness.settings = load({}, data_dir=harness.settings.data_dir)
    await harness.endpoint(receiving.url)
    await harness.events(jobs=3)
    async with sending(harness):
        await until(lambda: len(receiving.received) == 3)
        await harness.deliveries.expire_leases()
        # The upkeep ran and kept the leases of deliveries in progress.
        await until_upkeep(harness)
        answered.set()
        assert await harness.wait_until_settled() == {"delivered": 3}

    assert len(receiving.received) == 3


async def test_a_cancelled_claim_leaves_no_lease(
    harness: SenderHarness, receiving: Receiver
) -> None:
    await harness.endpoint(receiving.url)
    for number in range(20):
        await harness.deliveries.event("org_a", f"job_{number}")
        async with sending(harness, drain_immediately=True):
            # Cancel during the first iteration; on SQLite, between the claim and its end.
            await asyncio.sleep(0)

    rows = await harness.db.fetch_all("SELECT 1 FROM deliveries WHERE lease_owner IS NOT NULL")
    assert rows == []


class CountingDatabase:
    """A store that counts the transactions of each kind."""

    def __init__(self, real: Database) -> None:
        self._real = real
        self.counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def transact(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.counts[work.__name__] += 1
        return await self._real.transact(work, *args, **kwargs)


async def test_deliveries_claimed_before_a_long_suspension_are_not_sent(
    harness: SenderHarness, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the machine was suspended its leases expired, and another sender may have sent them."""
    slept = 0

    class SuspendedDatabase(CountingDatabase):
        async def transact(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            nonlocal slept
            result = await super().transact(work, *args, **kwargs)
            if work.__name__ == "_claim" and any(each.deliveries for each in result.values()):
                slept = slept or 60_000
            return result

    awake_ms = sender.elapsed_ms
    monkeypatch.setattr(sender, "elapsed_ms", lambda: awake_ms() + slept)
    await harness.endpoint(receiving.url)
    await harness.events(jobs=3)

    async with sending(harness, SuspendedDatabase(harness.db)):  # type: ignore[arg-type]
        assert await harness.wait_until_settled() == {"delivered": 3}

    assert len(receiving.received) == 3
    rows = await harness.db.fetch_all("SELECT fence FROM deliveries")
    # Claimed, released and claimed again.
    assert [row["fence"] for row in rows] == [2, 2, 2]


async def test_a_sender_whose_receivers_all_hang_does_not_busy_loop(
    harness: SenderHarness, receiving: Receiver
) -> None:
    release = threading.Event()

    def hang(_: Received) -> int:
        release.wait(30)
        return 200

    receiving.respond = hang
    harness.settings = load(
        {"AGENTJOBS_WEBHOOK_CONCURRENCY": "4", "AGENTJOBS_WEBHOOK_ENDPOINT_CONCURRENCY": "1"},
        data_dir=harness.settings.data_dir,
    )
    for _ in range(100):
        await harness.endpoint(receiving.url)
    await harness.events(jobs=2)
    counting = CountingDatabase(harness.db)
    async with sending(harness, counting, drain_immediately=True):  # type: ignore[arg-type]
        await until(lambda: len(receiving.received) == 3)
        before = counting.counts.copy()
        await until(lambda: counting.counts["_maintain"] >= before["_maintain"] + 2)
        claims = counting.counts["_claim"] - before["_claim"]
    release.set()

    # In about four seconds: one claim per poll, and none immediately after another.
    assert claims < 20


async def until_upkeep(harness: SenderHarness) -> None:
    """Waits until the upkeep clears an expired lease of another sender."""
    await harness.db.transact(_insert_leased_marker)

    async def is_cleared() -> bool:
        row = await harness.db.fetch_one(
            "SELECT lease_owner FROM deliveries WHERE id = 'dlv_marker'"
        )
        return row is not None and row["lease_owner"] is None

    async with asyncio.timeout(20):
        while not await is_cleared():  # noqa: ASYNC110 - a row gives no event to wait for
            await asyncio.sleep(0.02)
    await harness.db.transact(_remove_marker)


async def _make_all_due(tx: Transaction) -> None:
    await tx.execute("UPDATE deliveries SET status = 'pending', due_at = 0, failures = 0")


async def _insert_leased_marker(tx: Transaction) -> None:
    await tx.execute(
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        " event, status, due_at, created_at, lease_owner, lease_expires_at)"
        " VALUES ('dlv_marker', 'org_other', 'whk_none', 'job_none', 1, 'evt_none', 'job.queued',"
        " 'delivered', 0, 0, 'snd_dead', 1)"
    )


async def _remove_marker(tx: Transaction) -> None:
    await tx.execute("DELETE FROM deliveries WHERE id = 'dlv_marker'")


async def test_an_idle_sender_only_reads(harness: SenderHarness, receiving: Receiver) -> None:
    await harness.endpoint(receiving.url)
    client = WebhookClient.from_settings(harness.settings, AllowList.parse(["127.0.0.0/8"]))
    sender = Sender(harness.db, SecretOpener(harness.keys), client, harness.settings)
    await sender._claim_and_start()
    claims = CountedCalls(sender._claim_kinds)
    sender._claim_kinds = claims  # type: ignore[method-assign]  # counts the transactions

    await sender._claim_and_start()
    assert claims.count == 0
    await harness.events(jobs=1)
    await sender._claim_and_start()
    assert claims.count == 1
    await sender.drain(5, asyncio.Event())
    await client.close()
    assert len(receiving.received) == 1


async def test_a_sender_passes_on_what_it_cannot_send(
    postgres_url: str, tmp_path: Path, receiving: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_POLL_SECONDS", 600.0)
    async with opened(postgres_url) as db, opened(postgres_url) as other_db:
        deliveries = DeliveryHarness(db)
        await deliveries.organization("org_a")
        keyless = SenderHarness(db, load(QUICK, data_dir=str(tmp_path / "a")), deliveries)
        other = SenderHarness(other_db, load(QUICK, data_dir=str(tmp_path / "b")), deliveries)
        for harness in (keyless, other):
            harness.settings.data_path.mkdir()
        await other.endpoint(receiving.url)
        async with sending(keyless) as first, sending(other) as second:
            await until(lambda: _is_waiting(first) and _is_waiting(second))
            # It learns with the first one that it has no key.
            await deliveries.event("org_a", "job_0", 1)
            await until(lambda: len(receiving.received) == 1)
            await until(lambda: _is_waiting(first) and _is_waiting(second))
            await deliveries.event("org_a", "job_1", 1)
            await until(lambda: len(receiving.received) == 2)


def _is_waiting(sending: Sender) -> bool:
    is_sending = bool(sending._in_progress or sending.recorder.unrecorded_ids)
    return not is_sending and bool(sending._wake._waiters)

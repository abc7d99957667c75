"""A process judges the leases of others only after one lease of contact with the database."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.start import start_job
from agentjobs.loops.rescue_loop import rescue_loop
from agentjobs.organizations.authentication import Caller
from agentjobs.store import contact
from agentjobs.store.contact import Contact
from agentjobs.store.database import Database, StoreFull
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

BASE = "1" * 40
LEASE_SECONDS = 10
WORKER = WorkerInfo("wrk_a", "host", 1, AGENTS)
Call = Literal["fetch_one", "transact"]


class TroubledDatabase:
    """Calls `trouble` before the next call of a kind."""

    def __init__(self, db: Database) -> None:
        self.contact = Contact()
        self.trouble: dict[Call, Callable[[], None]] = {}
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def fetch_one(self, *args: Any, **kwargs: Any) -> Any:
        self.trouble.pop("fetch_one", _nothing)()
        return await self._db.fetch_one(*args, **kwargs)

    async def transact(self, *args: Any, **kwargs: Any) -> Any:
        self.trouble.pop("transact", _nothing)()
        return await self._db.transact(*args, **kwargs)


def _nothing() -> None:
    pass


def _refuse() -> None:
    raise StoreFull("the disk is full")


class Rescuer:
    """A process that looks for lost workers once a second, by a clock that the test moves."""

    def __init__(self, harness: JobHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_ms = 0
        monkeypatch.setattr(contact, "elapsed_ms", lambda: self._now_ms)
        self.db = TroubledDatabase(harness.db)
        settings = msgspec.structs.replace(
            harness.context.settings, lease_seconds=LEASE_SECONDS, lost_worker_retries=0
        )
        database: Any = self.db
        self._rescue = rescue_loop(database, settings)._once

    def wait(self, seconds: float) -> None:
        self._now_ms += int(seconds * 1_000)

    def hang_in(self, call: Call, seconds: float) -> None:
        self.db.trouble[call] = lambda: self.wait(seconds)

    async def run(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.wait(1)
            await self._rescue()


@pytest.fixture
def rescuer(harness: JobHarness, monkeypatch: pytest.MonkeyPatch) -> Rescuer:
    return Rescuer(harness, monkeypatch)


async def running_job(harness: JobHarness) -> tuple[Caller, ClaimedJob]:
    caller = await harness.organization()
    await harness.job(caller)
    job = await harness.claim(WORKER.id)
    await start_job(harness.db, job, BASE)
    return caller, job


async def status(harness: JobHarness, caller: Caller, job: ClaimedJob) -> str:
    return (await harness.view(caller, job.id)).status


@pytest.mark.parametrize("call", ["fetch_one", "transact"])
async def test_a_database_that_hangs_ends_no_lease_of_a_worker_that_was_cut_off_too(
    harness: JobHarness, rescuer: Rescuer, call: Call
) -> None:
    caller, job = await running_job(harness)
    await rescuer.run(20)
    await harness.expire_leases()
    rescuer.hang_in(call, 13)
    await rescuer.run(LEASE_SECONDS)
    assert await status(harness, caller, job) == "running"
    await renew(harness.db, WORKER, [job.claim], LEASE_SECONDS)
    await rescuer.run(20)
    assert await status(harness, caller, job) == "running"


async def test_a_worker_that_does_not_return_from_an_outage_is_lost(
    harness: JobHarness, rescuer: Rescuer
) -> None:
    caller, job = await running_job(harness)
    await rescuer.run(20)
    await harness.expire_leases()
    rescuer.hang_in("fetch_one", 13)
    await rescuer.run(LEASE_SECONDS + 1)
    assert await status(harness, caller, job) == "failed"


async def test_a_worker_that_is_lost_without_an_outage_is_replaced_at_once(
    harness: JobHarness, rescuer: Rescuer
) -> None:
    caller, job = await running_job(harness)
    await rescuer.run(20)
    await harness.expire_leases()
    await rescuer.run()
    assert await status(harness, caller, job) == "failed"


async def test_a_process_that_has_just_started_ends_no_lease(
    harness: JobHarness, rescuer: Rescuer
) -> None:
    caller, job = await running_job(harness)
    await harness.expire_leases()
    await rescuer.run(LEASE_SECONDS - 1)
    assert await status(harness, caller, job) == "running"
    await rescuer.run(2)
    assert await status(harness, caller, job) == "failed"


async def test_a_claim_that_its_worker_gave_up_in_an_outage_ends_once_the_worker_is_back(
    harness: JobHarness, rescuer: Rescuer
) -> None:
    caller, job = await running_job(harness)
    await rescuer.run(20)
    await harness.expire_leases()
    rescuer.hang_in("fetch_one", 13)
    await renew(harness.db, WORKER, [], LEASE_SECONDS)
    await rescuer.run()
    assert await status(harness, caller, job) == "queued"


async def test_a_store_that_refuses_writes_is_no_contact(
    harness: JobHarness, rescuer: Rescuer
) -> None:
    caller, job = await running_job(harness)
    await rescuer.run(20)
    await harness.expire_leases()
    rescuer.db.trouble["transact"] = _refuse
    with pytest.raises(StoreFull):
        await rescuer.run()
    await rescuer.run(LEASE_SECONDS - 1)
    assert await status(harness, caller, job) == "running"
    await rescuer.run(2)
    assert await status(harness, caller, job) == "failed"

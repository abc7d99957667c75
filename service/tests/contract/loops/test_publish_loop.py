"""Finished work is published by one process at a time, whatever happens to it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.queue.start import start_job
from agentjobs.loops import publish_loop
from agentjobs.loops.publish_loop import PublishLoop
from agentjobs.organizations.authentication import Caller
from agentjobs.publishing.publish import Publication
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.outcomes import (
    Completed,
    Failed,
    Kept,
    KeptWork,
    Outage,
    Outcome,
    Unreachable,
)
from tests.support.jobs import JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
DONE = Completed("http://x/1", 1, COMMIT, draft=False)
LEASE_MS = 10_000
Publish = Callable[[Publication], Awaitable[Outcome]]


@pytest.fixture
async def caller(harness: JobHarness) -> Caller:
    return await harness.organization()


async def kept_job(harness: JobHarness, caller: Caller) -> str:
    job_id = await harness.job(caller)
    job = await harness.claim()
    await start_job(harness.db, job, BASE, "the prompt")
    assert await finish_job(harness.db, job, Kept(KeptWork(BASE, COMMIT, b"a bundle")))
    return job_id


def new_loop(harness: JobHarness, monkeypatch: pytest.MonkeyPatch, publish: Publish) -> PublishLoop:
    monkeypatch.setattr(publish_loop, "publish", publish)
    tools: Any = SimpleNamespace(db=harness.db, context=harness.context)
    return PublishLoop(tools)


async def status(harness: JobHarness, caller: Caller, job_id: str) -> str:
    return (await harness.view(caller, job_id)).status


async def wait_until_ended(harness: JobHarness, job_id: str, loop: PublishLoop) -> None:
    with harness.db.changes.listen(f"job:{job_id}") as signal:
        task = asyncio.create_task(loop.run())
        assert await signal.wait(30)
    task.cancel()
    await asyncio.wait([task])
    await loop.finish(30, asyncio.Event())


async def test_work_is_published_and_its_log_continues(
    harness: JobHarness, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(publication: Publication) -> Outcome:
        job = publication.run.job
        publication.run.log.note(f"pushed with {job.credential}")
        return DONE

    job_id = await kept_job(harness, caller)
    await wait_until_ended(harness, job_id, new_loop(harness, monkeypatch, publish))
    assert await status(harness, caller, job_id) == "completed"
    [chunk] = await read_chunks(harness.db, job_id, 0, 9)
    assert chunk.text == "[agentjobs] pushed with [redacted]\n"


async def test_a_process_that_is_not_able_leaves_the_work_to_others(
    harness: JobHarness, caller: Caller
) -> None:
    job_id = await kept_job(harness, caller)
    tools: Any = SimpleNamespace(db=harness.db, context=harness.context)
    loop = PublishLoop(tools, is_able=lambda: False)
    await loop.finish(30, asyncio.Event())
    [job] = await claim_kept_work(harness.db, 4, LEASE_MS)
    assert job.id == job_id


async def test_work_that_must_wait_stays_kept(
    harness: JobHarness, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(publication: Publication) -> Outcome:
        return Unreachable(Outage(publication.run.job.platform_key, "away"))

    job_id = await kept_job(harness, caller)
    loop = new_loop(harness, monkeypatch, publish)
    await loop.finish(30, asyncio.Event())
    assert await status(harness, caller, job_id) == "running"
    assert await claim_kept_work(harness.db, 4, LEASE_MS) == []


async def test_a_process_that_ends_hands_over_what_it_could_not_publish(
    harness: JobHarness, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(_: Publication) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    job_id = await kept_job(harness, caller)
    loop = new_loop(harness, monkeypatch, publish)
    stop_now = asyncio.Event()
    stop_now.set()
    await loop.finish(30, stop_now)
    [job] = await claim_kept_work(harness.db, 4, LEASE_MS)
    assert job.id == job_id


async def test_a_process_that_lost_its_lease_stores_nothing(
    harness: JobHarness, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(_: Publication) -> Outcome:
        await harness.db.transact(expire)
        [taken] = await claim_kept_work(harness.db, 4, LEASE_MS)
        assert await finish_job(harness.db, taken, DONE)
        return Failed("push_rejected", "too late")

    job_id = await kept_job(harness, caller)
    loop = new_loop(harness, monkeypatch, publish)
    await loop.finish(30, asyncio.Event())
    assert await status(harness, caller, job_id) == "completed"


async def expire(tx: Transaction) -> None:
    await tx.execute("UPDATE job_queue SET lease_expires_at = 1")

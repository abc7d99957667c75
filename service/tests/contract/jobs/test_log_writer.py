"""A job's log: in order, bounded, with times and without secrets."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.model import LogChunk
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_worker.logs import writer
from agentjobs_worker.logs.writer import LogWriter
from tests.support.event_loop import longest_turn
from tests.support.jobs import JobHarness

CAP = 1_000_000


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


async def chunks_of(harness: JobHarness, job_id: str) -> list[LogChunk]:
    return await read_chunks(harness.db, job_id, 0, 1000)


async def text_of(harness: JobHarness, job_id: str) -> str:
    return "".join(chunk.text for chunk in await chunks_of(harness, job_id))


@pytest.fixture
async def job(harness: JobHarness):
    await harness.job(await harness.organization())
    return await harness.claim()


async def test_a_secret_split_over_two_writes_is_redacted(harness: JobHarness, job) -> None:
    async with LogWriter(harness.link(job), job, CAP, ["hunter22secret"]) as log:
        log.write(b"the password is hunter")
        log.write(b"22secret\n")
        log.add_secret("added-later")
        log.write(b"and added-later\n")
        log.note("cannot push with hunter22secret")
        assert log.redact("failed: added-later") == "failed: [redacted]"
    assert await text_of(harness, job.id) == (
        "the password is [redacted]\nand [redacted]\n[agentjobs] cannot push with [redacted]\n"
    )


async def test_output_held_back_is_written_before_the_notes_after_the_end(
    harness: JobHarness, job
) -> None:
    async with LogWriter(harness.link(job), job, CAP, ["hunter22secret"]) as log:
        log.write(b"who hunts with hunt")
        log.end_output()
        log.note("the agent ended")
        log.write(b"checks\n")
    assert (
        await text_of(harness, job.id)
        == "who hunts with hunt\n[agentjobs] the agent ended\nchecks\n"
    )


async def test_an_agent_cannot_forge_a_line_of_the_service(harness: JobHarness, job) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.write(b"x\n[agent")
        log.write(b"jobs] pushed\n")
        log.note("one\nline")
    assert await text_of(harness, job.id) == "x\n[agentjobs\\] pushed\n[agentjobs] one line\n"


async def test_a_full_log_says_so_once_and_keeps_only_the_services_notes(
    harness: JobHarness, job
) -> None:
    async with LogWriter(harness.link(job), job, 10, ["hunter22secret"]) as log:
        log.write(b"12345hunter22secret")
        log.write(b"more")
        log.note("the agent ended")
    text = await text_of(harness, job.id)
    assert text.startswith("12345[reda\n[agentjobs] the log is full")
    assert text.endswith("\n[agentjobs] the agent ended\n")
    assert text.count("\n") == 3


async def test_a_full_log_never_ends_inside_a_secret(harness: JobHarness, job) -> None:
    async with LogWriter(harness.link(job), job, 10, ["hunter22secret"]) as log:
        log.write(b"1234567hunter2")
        log.write(b"2sec")
    assert (await text_of(harness, job.id)).startswith("1234567[re\n[agentjobs] the log is full")


async def test_the_services_notes_are_bounded(harness: JobHarness, job) -> None:
    async with LogWriter(harness.link(job), job, 10) as log:
        for number in range(1_000):
            log.note(f"{number} " + "x" * 10_000)
    text = await text_of(harness, job.id)
    assert len(text) < 300_000
    assert text.endswith("[agentjobs] further notes of the service are not kept\n")


async def test_a_chunk_has_the_time_of_its_first_byte(harness: JobHarness, job) -> None:
    clock = Clock()
    async with LogWriter(harness.link(job), job, CAP, clock_ms=clock) as log:
        for after_ms in (0, 150, 100):
            clock.now += after_ms
            log.write(b"line\n")
    stored = [(chunk.created_at, chunk.text) for chunk in await chunks_of(harness, job.id)]
    assert stored == [(1_000_000, "line\nline\n"), (1_000_250, "line\n")]


async def test_a_flood_of_output_is_stored_completely_and_in_order(
    harness: JobHarness, job
) -> None:
    lines = "".join(f"line {number}\n" for number in range(40_000))
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.write(lines.encode())
    assert await text_of(harness, job.id) == lines
    assert max(len(chunk.text) for chunk in await chunks_of(harness, job.id)) <= 65_536


async def test_lines_of_other_programs_have_their_name(harness: JobHarness, job) -> None:
    async with LogWriter(harness.link(job), job, CAP, ["hunter22secret"]) as log:
        database = log.open_source("service:db", 1_000)
        log.write(b"agent ")
        database.write(b"ready\nhunter22")
        log.write(b"goes on\n")
        database.write(b"secret\n\r[agentjobs] forged\n")
        log.add_secret("added-later")
        database.write(b"use added-")
        database.write(b"later")
        log.note("the agent ended")
        database.end()
    assert await text_of(harness, job.id) == (
        "agent \nservice:db | ready\ngoes on\nservice:db | [redacted]\n"
        "service:db | \r[agentjobs\\] forged\n[agentjobs] the agent ended\n"
        "service:db | use [redacted]\n"
    )


async def test_a_program_that_floods_the_log_leaves_room_for_the_agent(
    harness: JobHarness, job
) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        flooding = log.open_source("service:db", 10_000)
        for _ in range(1_000):
            flooding.write(b"x" * 1_000)
        log.write(b"agent\n")
        log.note("the agent ended")
    lines = (await text_of(harness, job.id)).split("\n")
    assert lines[-4:] == [
        "service:db | further output is not kept",
        "agent",
        "[agentjobs] the agent ended",
        "",
    ]
    assert sum(map(len, lines)) < 11_000
    assert all(line.startswith("service:db | x") for line in lines[:-4])


async def test_a_hostile_event_leaves_the_event_loop_time_for_others_and_keeps_the_order(
    harness: JobHarness, job
) -> None:
    text = b"-----BEGIN " * 380_000
    secrets = [f"hunter22secret-{number}" for number in range(20)]
    async with (
        longest_turn() as longest,
        LogWriter(harness.link(job), job, 10 * CAP, secrets) as log,
    ):
        await asyncio.sleep(0)
        log.write(text)
        log.write(b"\nhunt")
        log.end_output()
        log.note("the agent ended")
        log.write(b"checks\n")
    expected = f"{text.decode()}\nhunt\n[agentjobs] the agent ended\nchecks\n"
    assert await text_of(harness, job.id) == expected
    assert longest.cpu_seconds < 0.25


async def test_the_worker_logs_why_the_output_of_a_lost_job_is_not_stored(
    harness: JobHarness, job: ClaimedJob, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.note("too late")
    (record,) = caplog.records
    expected = "a log could not be stored: the claim ended, or another process has it"
    assert record.getMessage() == expected


async def test_the_last_words_of_an_agent_are_stored_after_an_outage(
    harness: JobHarness, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say why it failed, and the end of its run waits for the database as long."""
    is_back = asyncio.Event()
    transact = harness.db.transact

    async def refuse(work: Callable[..., Any], *arguments: Any, **others: Any) -> Any:
        if not is_back.is_set():
            raise StoreUnavailable("away")
        return await transact(work, *arguments, **others)

    monkeypatch.setattr(writer, "_FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(harness.db, "transact", refuse)
    asyncio.get_running_loop().call_later(0.5, is_back.set)
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.write(b"last words\n")
    assert await text_of(harness, job.id) == "last words\n"

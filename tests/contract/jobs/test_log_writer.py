"""What reaches a job's log: everything in order, capped, with times, and no secret."""

import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.model import LogChunk
from tests.support.jobs import World

CAP = 1_000_000


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


async def chunks_of(world: World, job_id: str) -> list[LogChunk]:
    return await read_chunks(world.db, job_id, 0, 1000)


async def text_of(world: World, job_id: str) -> str:
    return "".join(chunk.text for chunk in await chunks_of(world, job_id))


@pytest.fixture
async def job(world: World):
    await world.job(await world.organization())
    return await world.claim()


async def test_a_secret_cut_in_two_is_not_shown_by_anybody(world: World, job) -> None:
    async with LogWriter(world.db, job, CAP, ["hunter22secret"]) as log:
        log.write(b"the password is hunter")
        log.write(b"22secret\n")
        log.add_secret("added-later")
        log.write(b"and added-later\n")
        log.note("cannot push with hunter22secret")
        assert log.redact("failed: added-later") == "failed: [redacted]"
    assert await text_of(world, job.id) == (
        "the password is [redacted]\nand [redacted]\n[agentjobs] cannot push with [redacted]\n"
    )


async def test_what_was_held_back_comes_before_the_words_after_the_end(world: World, job) -> None:
    async with LogWriter(world.db, job, CAP, ["hunter22secret"]) as log:
        log.write(b"who hunts with hunt")
        log.end_output()
        log.note("the agent ended")
        log.write(b"checks\n")
    assert (
        await text_of(world, job.id) == "who hunts with hunt\n[agentjobs] the agent ended\nchecks\n"
    )


async def test_an_agent_cannot_speak_for_the_service(world: World, job) -> None:
    async with LogWriter(world.db, job, CAP) as log:
        log.write(b"x\n[agent")
        log.write(b"jobs] pushed\n")
        log.note("one\nline")
    assert await text_of(world, job.id) == "x\n[agentjobs\\] pushed\n[agentjobs] one line\n"


async def test_a_full_log_says_so_once_and_keeps_only_the_words_of_the_service(
    world: World, job
) -> None:
    async with LogWriter(world.db, job, 10, ["hunter22secret"]) as log:
        log.write(b"12345hunter22secret")
        log.write(b"more")
        log.note("the agent ended")
    text = await text_of(world, job.id)
    assert text.startswith("12345[reda\n[agentjobs] the log is full")
    assert text.endswith("\n[agentjobs] the agent ended\n")
    assert text.count("\n") == 3


async def test_a_full_log_does_not_end_in_the_middle_of_a_secret(world: World, job) -> None:
    async with LogWriter(world.db, job, 10, ["hunter22secret"]) as log:
        log.write(b"1234567hunter2")
        log.write(b"2sec")
    assert (await text_of(world, job.id)).startswith("1234567[re\n[agentjobs] the log is full")


async def test_the_words_of_the_service_are_bounded_too(world: World, job) -> None:
    async with LogWriter(world.db, job, 10) as log:
        for number in range(1_000):
            log.note(f"{number} " + "x" * 10_000)
    text = await text_of(world, job.id)
    assert len(text) < 300_000
    assert text.endswith("[agentjobs] further words of the service are not kept\n")


async def test_a_piece_has_the_time_of_its_first_byte(world: World, job) -> None:
    clock = Clock()
    async with LogWriter(world.db, job, CAP, clock_ms=clock) as log:
        for after_ms in (0, 150, 100):
            clock.now += after_ms
            log.write(b"line\n")
    found = [(chunk.created_at, chunk.text) for chunk in await chunks_of(world, job.id)]
    assert found == [(1_000_000, "line\nline\n"), (1_000_250, "line\n")]


async def test_a_flood_is_stored_whole_and_in_order(world: World, job) -> None:
    lines = "".join(f"line {number}\n" for number in range(40_000))
    async with LogWriter(world.db, job, CAP) as log:
        log.write(lines.encode())
    assert await text_of(world, job.id) == lines
    assert max(len(chunk.text) for chunk in await chunks_of(world, job.id)) <= 65_536

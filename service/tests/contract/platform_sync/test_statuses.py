"""Results of jobs are reported on their pull requests, on both stores."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.loops.status_loop import StatusLoop
from agentjobs.platform_sync.statuses import MAX_REFUSALS, StatusReporter
from agentjobs.platforms.protocol import CommitStatus, PlatformError, RepoAddress
from agentjobs.pulls import status_rows
from agentjobs.pulls.status_rows import request_status
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Failed
from agentjobs_runtime.settings import load
from tests.support.jobs import claim_job
from tests.support.platform_sync import BASE, HEAD, SyncEnvironment, sync_environment
from tests.support.stores import until

PUBLIC_URL = "https://agentjobs.example.org"
AWAY = PlatformError("Gitea is busy.", "away")


class Statuses:
    def __init__(self, env: SyncEnvironment) -> None:
        self.env = env
        self.reporter = StatusReporter(env.db, env.context.settings, env)

    @property
    def written(self) -> list[CommitStatus]:
        return self.env.platform.statuses

    async def open_pull(self, number: int) -> ClaimedJob:
        """A pull request whose job has opened it and is about to finish."""
        job = await self.env.start_pull(number)
        await self.env.db.transact(request_status, job.repo_id, job.branch, job.id)
        return job

    async def follow_up(self, job: ClaimedJob) -> ClaimedJob:
        caller, request = self.env._caller(), FollowUpRequest(prompt="More")
        await follow_up_job(self.env.context, caller, job.id, request)
        claimed = await claim_job(self.env.context, "wrk_a", ["fixer"])
        assert claimed is not None
        return claimed

    async def report(self) -> list[str]:
        """Report everything, as if the time for it had come; what was written."""
        count = len(self.written)
        await self.env.execute("UPDATE pull_statuses SET due_at = 1 WHERE due_at IS NOT NULL")
        rows = await self.env.db.fetch_all("SELECT 1 FROM pull_statuses WHERE due_at IS NOT NULL")
        for _ in rows:
            await self.reporter.report_next()
        return [status.state for status in self.written[count:]]

    async def row(self) -> tuple[str | None, bool, int]:
        """Error, whether it is due some time, and the number of failures."""
        row = await self.env.db.fetch_one("SELECT error, due_at, failures FROM pull_statuses")
        assert row is not None
        return row["error"], row["due_at"] is not None, row["failures"]


@pytest.fixture
async def statuses(database: Database, tmp_path: Path) -> Statuses:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_PUBLIC_URL": PUBLIC_URL})
    env = await sync_environment(database, settings, cast("Remote", None))
    await env.connect()
    await env.update_repos("index_status = 'ready', head_commit = :base", base=BASE)
    return Statuses(env)


async def test_a_job_is_pending_until_it_ends_and_each_state_is_written_once(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    assert await statuses.report() == ["pending"]
    assert await statuses.report() == []
    await statuses.env.finish(job, 7)
    assert await statuses.report() == ["success"]
    assert await statuses.row() == (None, False, 0)
    last = statuses.written[-1]
    assert (last.commit, last.branch, last.url) == (
        HEAD,
        job.branch,
        f"{PUBLIC_URL}/jobs/{job.id}",
    )
    assert last.description == "fixer has finished"


async def test_a_follow_up_is_pending_at_once_and_its_outcome_replaces_the_last(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    assert await statuses.report() == ["success"]
    second = await statuses.follow_up(job)
    assert await statuses.report() == ["pending"]
    await finish_job(statuses.env.db, second, Failed("no_changes", "Nothing to do."))
    assert await statuses.report() == ["neutral"]
    third = await statuses.follow_up(job)
    await start_job(statuses.env.db, third, BASE)
    # Written although the row was never looked at while the job was active.
    await finish_job(statuses.env.db, third, Failed("agent_failed", "It crashed."))
    assert await statuses.report() == ["failure"]
    assert statuses.written[-1].description == "The last job failed (agent_failed)"
    assert statuses.written[-1].url.endswith(third.id)


async def test_commits_of_others_get_a_result_that_does_not_block_them(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    await statuses.report()
    other = "c" * 40
    await statuses.env.execute("UPDATE pulls SET head_commit = :other", other=other)
    await statuses.env.db.transact(status_rows.look_again, job.repo_id, 7)
    assert await statuses.report() == ["neutral"]
    assert statuses.written[-1].commit == other
    # After a failed job too.
    second = await statuses.follow_up(job)
    await finish_job(statuses.env.db, second, Failed("agent_failed", "It crashed."))
    assert await statuses.report() == ["failure"]
    await statuses.env.execute("UPDATE pulls SET head_commit = :other", other="d" * 40)
    await statuses.env.db.transact(status_rows.look_again, job.repo_id, 7)
    assert await statuses.report() == ["neutral"]


async def test_a_platform_that_is_away_delays_the_report_and_nothing_else(
    statuses: Statuses,
) -> None:
    first, second = await statuses.open_pull(7), await statuses.open_pull(8)
    for job, number in ((first, 7), (second, 8)):
        await statuses.env.finish(job, number)
    statuses.env.platform.faults["set_status"] = AWAY
    requests = statuses.env.platform.requests
    assert await statuses.report() == []
    # The other one of the connection waits as well: one request, not two.
    assert requests["set_status"] == 1
    assert not await statuses.reporter.report_next()
    # Both are due at the same time.
    rows = await statuses.env.db.fetch_all("SELECT error FROM pull_statuses ORDER BY error IS NULL")
    assert [row["error"] for row in rows] == [str(AWAY), None]
    statuses.env.platform.faults.clear()
    assert await statuses.report() == ["success", "success"]


async def test_a_commit_that_the_platform_does_not_know_yet_is_tried_again(
    statuses: Statuses,
) -> None:
    first, second = await statuses.open_pull(7), await statuses.open_pull(8)
    for job, number in ((first, 7), (second, 8)):
        await statuses.env.finish(job, number)
    unknown = PlatformError("GitHub refused the request (No commit found for SHA).", "refused")
    statuses.env.platform.faults["set_status"] = unknown
    assert await statuses.report() == []
    # It concerns one commit, so that the other one was tried as well.
    assert statuses.env.platform.requests["set_status"] == 2
    statuses.env.platform.faults.clear()
    assert await statuses.report() == ["success", "success"]
    # But not for ever.
    third = await statuses.follow_up(first)
    statuses.env.platform.faults["set_status"] = unknown
    for _ in range(MAX_REFUSALS + 2):
        await statuses.report()
    assert statuses.env.platform.requests["set_status"] == 4 + MAX_REFUSALS
    # The outcome is reported all the same once there is something new.
    await finish_job(statuses.env.db, third, Failed("no_changes", "Nothing to do."))
    statuses.env.platform.faults.clear()
    await statuses.env.db.transact(status_rows.retry_failed, statuses.env.connection.id)
    assert await statuses.report() == ["neutral"]


async def test_the_loop_reports_what_is_due_and_survives_an_unavailable_store(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    loop = StatusLoop(statuses.env.db, statuses.reporter)
    running = asyncio.create_task(loop.run())
    await until(lambda: len(statuses.written) == 1)
    running.cancel()
    await asyncio.wait({running})

    class Unavailable(StatusReporter):
        async def report_next(self) -> bool:
            raise StoreUnavailable("The store is away.")

    await statuses.follow_up(job)
    broken = Unavailable(statuses.env.db, statuses.env.context.settings, statuses.env)
    with pytest.raises(StoreUnavailable, match="The store is away"):
        await StatusLoop(statuses.env.db, broken).run()


async def test_a_missing_permission_is_an_error_of_the_connection_until_it_is_checked(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    denied = PlatformError("The connection needs the permission “write:repository”.", "denied")
    statuses.env.platform.faults["set_status"] = denied
    assert await statuses.report() == []
    assert await statuses.row() == (str(denied), False, 1)
    connection_id = statuses.env.connection.id
    assert await status_rows.latest_error(statuses.env.db, connection_id) == str(denied)
    statuses.env.platform.faults.clear()
    await statuses.env.db.transact(status_rows.retry_failed, connection_id)
    assert await statuses.report() == ["success"]
    assert await status_rows.latest_error(statuses.env.db, connection_id) is None


async def test_a_writer_that_died_is_replaced_and_a_new_job_meanwhile_is_not_lost(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    due = await status_rows.claim_due_status(statuses.env.db)
    assert due is not None
    # Another process claims nothing while the lease lasts.
    assert await status_rows.claim_due_status(statuses.env.db) is None
    await statuses.follow_up(job)
    # The first writer ends after the follow-up was created: the row stays due.
    await statuses.env.db.transact(status_rows.finish, due, "success", None)
    assert await statuses.report() == ["pending"]


async def test_closed_pull_requests_and_disconnected_repositories_get_no_report(
    statuses: Statuses,
) -> None:
    job = await statuses.open_pull(7)
    await statuses.env.finish(job, 7)
    await statuses.env.execute("UPDATE repos SET disconnected_at = 1")
    assert await statuses.report() == []
    await statuses.env.execute("UPDATE repos SET disconnected_at = NULL")
    await statuses.env.execute("UPDATE pulls SET state = 'merged'")
    assert await statuses.report() == []
    assert await statuses.row() == (None, False, 0)


async def test_reports_to_a_slow_platform_leave_the_other_loops_to_other_organizations(
    statuses: Statuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    write = statuses.env.platform.set_status

    async def answer_late(address: RepoAddress, status: CommitStatus) -> None:
        asked.set()
        await may_answer.wait()
        await write(address, status)

    monkeypatch.setattr(statuses.env.platform, "set_status", answer_late)
    for number in (7, 8):
        await statuses.env.finish(await statuses.open_pull(number), number)
    first = asyncio.create_task(statuses.reporter.report_next())
    await asked.wait()
    async with asyncio.timeout(15):
        assert not await statuses.reporter.report_next()
    may_answer.set()
    assert await first
    assert await statuses.reporter.report_next()
    assert [status.state for status in statuses.written] == ["success", "success"]

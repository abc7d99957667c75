"""Jobs wait for a tracker that does not respond, on both databases."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.ticket import find_ticket
from agentjobs.store.database import Transaction
from agentjobs.tickets.resolve import FoundTicket, Tickets
from agentjobs.tickets.trackers import NewTracker, add_tracker
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Outcome, Unreachable
from agentjobs_worker.run.failures import to_outcome
from tests.support.jobs import JobHarness
from tests.support.memory_issues import MemoryIssues
from tests.support.run_fields import RunFields

AWAY = PlatformError("it is out of order", "away")


@dataclass
class TicketRuns:
    """Runs jobs up to the point where their ticket is found."""

    harness: JobHarness
    caller: Caller
    tickets: Tickets
    issues: MemoryIssues
    notes: list[str] = field(default_factory=list)

    async def find(self, job: ClaimedJob) -> FoundTicket | Outcome | None:
        run: Any = RunFields(
            job=job,
            db=self.harness.db,
            tools=SimpleNamespace(tickets=self.tickets),
            log=SimpleNamespace(note=self.notes.append, redact=str),
            settings=self.harness.context.settings,
            pushed_commit=None,
        )
        repo: Any = SimpleNamespace(address=SimpleNamespace(full_name="acme/shop"))
        try:
            return await find_ticket(run, repo)
        except Exception as error:  # noqa: BLE001 - as a run does
            return await to_outcome(error, run)

    async def fail(self) -> ClaimedJob:
        """Claim a job whose tracker does not respond, and store how its run ended."""
        job = await self.harness.claim()
        self.issues.error = AWAY
        outcome = await self.find(job)
        assert isinstance(outcome, Unreachable)
        assert await finish_job(self.harness.db, job, outcome)
        return job


@pytest.fixture
async def runs(harness: JobHarness, tmp_path: Path) -> TicketRuns:
    caller = await harness.organization()
    await harness.db.transact(_connect_repos)
    keys = SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")
    await add_tracker(harness.db, keys, "acme", NewTracker(kind="issues"))
    issues = MemoryIssues()
    session: Any = None
    return TicketRuns(harness, caller, Tickets(harness.db, keys, session, issues), issues)


async def test_a_job_waits_for_its_tracker_without_spending_an_attempt(runs: TicketRuns) -> None:
    harness = runs.harness
    job_id = await harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    assert await harness.nothing_to_claim()
    harness.context.fleet.forget()
    job = await harness.view(runs.caller, job_id)
    assert (job.status, job.attempt, job.queue_reason) == ("queued", 0, "tracker_unreachable")
    assert await harness.events(runs.caller, job_id) == ["job.queued"]


async def test_jobs_that_need_another_tracker_or_none_do_not_wait(runs: TicketRuns) -> None:
    await runs.harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    expected = await runs.harness.job(runs.caller)
    assert (await runs.harness.claim()).id == expected


async def test_while_a_tracker_is_away_further_jobs_do_not_ask_it(runs: TicketRuns) -> None:
    for _ in range(2):
        await runs.harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    runs.issues.requested_connections.clear()
    await runs.fail()
    assert runs.issues.requested_connections == []
    assert await runs.harness.nothing_to_claim()


async def test_one_job_asks_a_tracker_again_and_its_response_releases_the_others(
    runs: TicketRuns,
) -> None:
    for _ in range(2):
        await runs.harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    await runs.fail()
    await runs.harness.db.transact(_make_due)
    claimed = await runs.harness.claim()
    assert await runs.harness.nothing_to_claim()
    runs.issues.error = None
    assert isinstance(await runs.find(claimed), FoundTicket)
    other = await runs.harness.claim()
    assert isinstance(await runs.find(other), FoundTicket)


async def test_a_missing_ticket_ends_the_outage_too(runs: TicketRuns) -> None:
    for _ in range(2):
        await runs.harness.job(runs.caller, ticket_id="#999")
    await runs.fail()
    await runs.fail()
    await runs.harness.db.transact(_make_due)
    claimed = await runs.harness.claim()
    runs.issues.error = None
    assert getattr(await runs.find(claimed), "code", None) == "ticket_not_found"
    await runs.harness.claim()


async def test_a_job_that_has_its_ticket_does_not_wait_for_the_tracker_again(
    runs: TicketRuns,
) -> None:
    await runs.harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    await runs.harness.db.transact(_make_due)
    runs.issues.error = None
    claimed = await runs.harness.claim()
    await runs.find(claimed)
    row = await runs.harness.db.fetch_one(
        "SELECT waits_for FROM job_queue WHERE job_id = :id", id=claimed.id
    )
    assert row is not None
    assert row["waits_for"] is None


async def test_a_job_fails_after_its_tracker_was_away_for_a_day(runs: TicketRuns) -> None:
    job_id = await runs.harness.job(runs.caller, ticket_id="#12")
    await runs.fail()
    await runs.harness.db.transact(_make_due)
    await runs.harness.db.transact(_begin_two_days_ago)
    await runs.fail()
    job = await runs.harness.view(runs.caller, job_id)
    assert job.error is not None
    assert (job.status, job.attempt, job.error.code) == ("failed", 0, "forge_error")
    assert "unreachable for 24 hours: issues: it is out of order" in job.error.message


async def _connect_repos(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET connection_id = 'con_1', external_id = '1'")


async def _make_due(tx: Transaction) -> None:
    await tx.execute("UPDATE platform_outages SET retry_at = :now", now=await tx.clock_ms())


async def _begin_two_days_ago(tx: Transaction) -> None:
    await tx.execute("UPDATE platform_outages SET since = since - :ms", ms=2 * DAY_MS)
    await tx.execute("UPDATE jobs SET created_at = created_at - :ms", ms=2 * DAY_MS)

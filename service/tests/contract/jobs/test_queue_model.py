"""Any order of claims, renewals, ends, cancels and lost workers keeps the queue's promises."""

import asyncio
import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.adoption import adopt_jobs
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.states import FINAL
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Row, Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import LOCAL, ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Cancelled,
    Completed,
    Failed,
    Kept,
    KeptWork,
    LostSandbox,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from tests.support.jobs import AGENTS, JobHarness, job_harness

BASE, HEAD = "1" * 40, "2" * 40
DONE = Completed("http://x/1", 1, HEAD, draft=False)
KEPT = Kept(KeptWork(BASE, HEAD, b"a bundle"))
LOST = LostSandbox(Failed("sandbox_error", "evicted"))
AWAY = Unreachable(Outage(LOCAL, "away"))
PLANS = {"free": 1, "pro": 5}
WORKERS = ("wrk_a", "wrk_b", "wrk_c", "wrk_d")
SUCCESSOR = "wrk_d"
LETTERS = {
    "job.queued": "Q",
    "job.started": "S",
    "job.completed": "C",
    "job.failed": "F",
    "pr.review_requested": "R",
}
# A job is completed or failed at most once. Only kept work completes without another start.
HISTORY = re.compile(r"Q(SQ)*(S|S?(CR|F))?")

JOBS = (
    "SELECT j.*, q.fence, q.lease_owner, q.lease_expires_at, q.credential_hash, q.waits_for"
    " FROM jobs j LEFT JOIN job_queue q ON q.job_id = j.id"
)


class QueueMachine(RuleBasedStateMachine):
    """Several workers that may be gone without knowing it, on one store."""

    runner: ClassVar[asyncio.Runner]
    harness: ClassVar[JobHarness]
    jobs = Bundle("jobs")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, Caller] = {}
        self.ended: dict[str, str] = {}
        self.starts_when_kept: dict[str, int] = {}
        self.callers = {
            plan: self.run(self.harness.organization(new_id("org").replace("_", "-"), plan))
            for plan in PLANS
        }

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(
        target=jobs,
        plan=st.sampled_from(sorted(PLANS)),
        priority=st.sampled_from(["low", "normal", "high"]),
    )
    def create(self, plan: str, priority: str) -> str:
        caller = self.callers[plan]
        job_id: str = self.run(self.harness.job(caller, config_override={"priority": priority}))
        self.owners[job_id] = caller
        return job_id

    @rule(target=claims, worker=st.sampled_from(WORKERS), count=st.integers(1, 4))
    def claim(self, worker: str, count: int) -> Any:
        jobs = self.run(Claimer(self.harness.context, worker).claim(AGENTS, count))
        assert len(jobs) <= count
        return multiple(*jobs)

    @rule(job=claims)
    def start(self, job: ClaimedJob) -> None:
        if job.kept_at is not None:
            return  # The run publishes what is kept instead.
        before = self.row(job.id)
        try:
            self.run(start_job(self.harness.db, job, BASE, "the prompt"))
        except ClaimLost:
            assert not is_held(before, job) or before["status"] != "queued"
            assert unchanged(self.row(job.id), before)
        else:
            assert is_held(before, job)

    @rule(
        job=claims,
        outcome=st.sampled_from(
            [DONE, KEPT, AWAY, LOST, Released(), Failed("timeout", ""), Cancelled()]
        ),
    )
    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        before = self.row(job.id)
        if before["status"] == "queued" and job.kept_at is None and outcome in (DONE, KEPT):
            return  # Without a start there is nothing to propose.
        is_stored = self.run(finish_job(self.harness.db, job, outcome))
        if is_held(before, job):
            assert is_stored
            if before["cancel_requested_at"] is not None and outcome != DONE:
                assert self.row(job.id)["status"] == "cancelled"
        elif is_stored:
            # A worker that was cut off hands over its work, if nobody did it again.
            assert (outcome, before["status"]) == (KEPT, "queued")
        else:
            assert unchanged(self.row(job.id), before)

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        before = self.row(job_id)
        caller = self.owners[job_id]
        cancelling = cancel_job(self.harness.db, caller.organization_id, job_id)
        if before["status"] in FINAL:
            with pytest.raises(Problem, match="already"):
                self.run(cancelling)
        else:
            self.run(cancelling)

    @rule(worker=st.sampled_from(WORKERS))
    def lose_worker(self, worker: str) -> None:
        """It may come back and try to continue: its claims stay in the bundle."""
        self.run(self.harness.db.transact(expire_leases, worker))
        self.run(rescue_lost_jobs(self.harness.db, self.harness.context.settings))

    @rule(target=claims, dead=st.sampled_from(WORKERS[:-1]), count=st.integers(0, 3))
    def restart(self, dead: str, count: int) -> Any:
        """Its successor adopts its jobs, if their leases hold."""
        before = {key: row for key, row in self.rows().items() if row["lease_owner"] == dead}
        events = self.events()
        adopting = adopt_jobs(self.harness.db, SUCCESSOR, [dead], count=count, lease_seconds=10)
        adopted = self.run(adopting)
        assert len(adopted) <= count
        for job in adopted:
            row, earlier = self.row(job.id), before[job.id]
            assert (row["lease_owner"], row["fence"]) == (SUCCESSOR, job.fence)
            assert (earlier["status"], earlier["cancel_requested_at"]) == ("running", None)
            assert (job.continues, job.attempt + 1) == (earlier["fence"], row["attempt"])
            assert self.events()[job.id] == events[job.id]
        for job_id, earlier in before.items():
            row = self.row(job_id)
            if row["lease_owner"] == dead:
                # It was adopted too often.
                assert (row["fence"], row["status"]) == (earlier["fence"], "running")
                continue
            assert row["attempt"] == earlier["attempt"] - (
                row["status"] == "queued" and earlier["status"] == "running"
            )
        return multiple(*adopted)

    @rule(worker=st.sampled_from(WORKERS), job=claims)
    def renew(self, worker: str, job: ClaimedJob) -> None:
        before = self.row(job.id)
        info = WorkerInfo(worker, "host", 4, AGENTS)
        renewal = self.run(renew(self.harness.db, info, [job.claim], 10))
        is_own = is_held(before, job) and before["lease_owner"] == worker
        assert renewal.renewed == ({job.claim} if is_own else set())

    @rule()
    def end_outages(self) -> None:
        self.run(self.harness.db.transact(delete_outages))

    @invariant()
    def promises_are_kept(self) -> None:
        rows = self.rows()
        for plan, caller in self.callers.items():
            active = [row for row in rows.values() if row["lease_owner"] is not None]
            owners = [row["organization_id"] for row in active]
            assert owners.count(caller.organization_id) <= PLANS[plan]
        for job_id, events in self.events().items():
            row, history = rows[job_id], "".join(LETTERS[event] for event in events)
            assert HISTORY.fullmatch(history), history
            if row["status"] in FINAL:
                assert self.ended.setdefault(job_id, history) == history
                assert row["lease_owner"] is None
            elif row["kept_at"] is not None:
                # The agent does not run again while its work is kept.
                starts = history.count("S")
                assert self.starts_when_kept.setdefault(job_id, starts) == starts

    def teardown(self) -> None:
        """Nobody holds a claim any more: every job reaches its end."""
        for _ in range(20 * (len(self.owners) + 1)):
            for worker in WORKERS:
                self.lose_worker(worker)
            self.end_outages()
            waiting = self.run(Claimer(self.harness.context, "wrk_z").claim(AGENTS, 5))
            for job in waiting:
                self.start(job)
                assert self.run(finish_job(self.harness.db, job, DONE))
            if not waiting:
                break
        assert all(self.row(job_id)["status"] in FINAL for job_id in self.owners)

    def row(self, job_id: str) -> Row:
        row = self.run(self.harness.db.fetch_one(f"{JOBS} WHERE j.id = :id", id=job_id))
        assert row is not None
        found: Row = row
        return found

    def rows(self) -> dict[str, Row]:
        rows = self.run(
            self.harness.db.fetch_all(
                f"{JOBS} WHERE j.id IN (SELECT value FROM each(:ids))", ids=[*self.owners]
            )
        )
        assert len(rows) == len(self.owners)
        return {row["id"]: row for row in rows}

    def events(self) -> dict[str, list[str]]:
        """The events of each job; their sequence has no gap."""
        rows = self.run(
            self.harness.db.fetch_all(
                "SELECT job_id, sequence, event FROM events"
                " WHERE job_id IN (SELECT value FROM each(:ids)) ORDER BY job_id, sequence",
                ids=[*self.owners],
            )
        )
        events: dict[str, list[str]] = {job_id: [] for job_id in self.owners}
        for row in rows:
            events[row["job_id"]].append(row["event"])
            assert row["sequence"] == len(events[row["job_id"]])
        return events


def is_held(row: Row, job: ClaimedJob) -> bool:
    return row["lease_owner"] is not None and row["fence"] == job.fence


def unchanged(row: Row, before: Row) -> bool:
    return {**row} == {**before}


async def expire_leases(tx: Transaction, worker: str) -> None:
    await tx.execute(
        "UPDATE job_queue SET lease_expires_at = 1 WHERE lease_owner = :worker", worker=worker
    )


async def delete_outages(tx: Transaction) -> None:
    await tx.execute("DELETE FROM platform_outages")


@pytest.fixture
def machine(database_url: str) -> Iterator[type[QueueMachine]]:
    with asyncio.Runner() as runner:
        db = runner.run(open_database(database_url, migrate=False))
        harness = job_harness(db, Settings(data_dir="/nonexistent"))
        yield type("Machine", (QueueMachine,), {"runner": runner, "harness": harness})
        runner.run(db.close())


def test_the_queue_keeps_its_promises(machine: type[QueueMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(os.environ.get("AGENTJOBS_TEST_QUEUE_EXAMPLES", "10")),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

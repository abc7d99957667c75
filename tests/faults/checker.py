"""Reads the store, git, the receiver and the machine after a run, and names what is wrong."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentjobs.store.database import Database, Row
from agentjobs.store.opening import open_database
from tests.faults.fleet import Fleet
from tests.faults.schedule import Fault, Schedule
from tests.support.service import git

FINAL = ("completed", "failed", "cancelled")
MAX_ATTEMPTS = 4
# Two lost workers are retried.
LOST_WORKERS = 3
_LETTERS = {
    "job.queued": "Q",
    "job.started": "S",
    "job.completed": "C",
    "job.failed": "F",
    "pr.review_requested": "R",
}
LEGAL_EVENTS = re.compile("Q(SQ)*(S?CR|S?F)")
_UNSETTLED = (
    "SELECT (SELECT count(*) FROM jobs WHERE status IN ('queued', 'running'))"
    " + (SELECT count(*) FROM deliveries WHERE status = 'pending') AS open"
)


@dataclass(frozen=True)
class AcceptedJob:
    """A job that was answered with 202, and whether the client sent a cancel."""

    id: str
    agent: str
    is_cancelled: bool


async def is_settled(url: str) -> bool:
    """False also while the database is away."""
    try:
        db = await open_database(url, migrate=False)
    except Exception:  # noqa: BLE001 - each engine has its own errors, and a bound ends the wait
        return False
    try:
        row = await db.fetch_one(_UNSETTLED)
        return row is not None and row["open"] == 0
    finally:
        await db.close()


class Checker:
    """`requeued` and `kept` tell how many runs the faults met."""

    def __init__(self, fleet: Fleet, schedule: Schedule, accepted: list[AcceptedJob]) -> None:
        self._fleet = fleet
        self._schedule = schedule
        self._accepted = {job.id: job for job in accepted}
        self.requeued = 0
        self.kept = 0

    async def check(self, url: str) -> list[str]:
        db = await open_database(url, migrate=False)
        try:
            jobs = await db.fetch_all("SELECT * FROM jobs ORDER BY id")
            return [
                *self._check_jobs(jobs),
                *await self._check_events(db, jobs),
                *await self._check_pulls(db, jobs),
                *await self._check_deliveries(db),
                *await self._check_rest(db),
            ]
        finally:
            await db.close()

    def leftovers(self) -> Iterator[str]:
        """Once the processes have ended."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue  # ended, or another user's
            if self._fleet.mark.encode() in environment:
                yield f"process {entry.name} of an agent still runs"
        for path in self._fleet.directory.glob("*/workspaces/sessions/*"):
            yield f"workspace {path} was left"

    def _check_jobs(self, jobs: list[Row]) -> Iterator[str]:
        ids = {job["id"] for job in jobs}
        yield from (f"{job_id} was accepted and is lost" for job_id in self._accepted.keys() - ids)
        yield from (f"{job_id} was created twice" for job_id in ids - self._accepted.keys())
        for job in jobs:
            if job["status"] not in FINAL:
                yield f"{job['id']} is {job['status']}"
            elif job["id"] in self._accepted and not self._is_expected(job):
                yield (
                    f"{job['id']} ({job['agent']}) is {job['status']}: {job['error_code']}"
                    f" {job['error_message']}"
                )
            if job["lease_owner"] is not None:
                yield f"{job['id']} is still claimed"

    def _is_expected(self, job: Row) -> bool:
        accepted = self._accepted[job["id"]]
        expected = {"idle": "no_changes", "crash": "agent_failed"}.get(accepted.agent)
        codes = {expected}
        if accepted.is_cancelled:
            codes.add("cancelled")
        lost = [
            self._schedule.count(name, Fault.KILL, Fault.AWAY, Fault.STOP)
            for name in ("worker", "up")
        ]
        if sum(lost) >= LOST_WORKERS:
            codes.add("worker_lost")
        return job["error_code"] in codes

    async def _check_events(self, db: Database, jobs: list[Row]) -> list[str]:
        rows = await db.fetch_all("SELECT * FROM events ORDER BY job_id, sequence")
        logs = await db.fetch_all("SELECT job_id, text FROM job_logs")
        violations = []
        for job in jobs:
            events = [row for row in rows if row["job_id"] == job["id"]]
            letters = "".join(_LETTERS[row["event"]] for row in events)
            self.requeued += letters.count("SQ")
            self.kept += job["kept_at"] is not None
            if not LEGAL_EVENTS.fullmatch(letters):
                violations.append(f"{job['id']} has the events {letters}")
            if [row["sequence"] for row in events] != list(range(1, len(events) + 1)):
                violations.append(f"{job['id']} lacks an event")
            if ("C" in letters) != (job["status"] == "completed"):
                violations.append(f"{job['id']} is {job['status']} with the events {letters}")
            if "QC" in letters and job["kept_at"] is None:
                violations.append(f"{job['id']} completed without a run")
            starts = [row["created_at"] for row in events if row["event"] == "job.started"]
            if job["kept_at"] is not None and max(starts, default=0) > job["kept_at"]:
                violations.append(f"{job['id']} was started after its work was kept")
            runs = "".join(row["text"] for row in logs if row["job_id"] == job["id"])
            if runs.count("agent-runs") > len(starts):
                violations.append(f"{job['id']} ran more often than it was started")
        return violations

    async def _check_pulls(self, db: Database, jobs: list[Row]) -> list[str]:
        pulls = await db.fetch_all("SELECT * FROM pulls")
        count = Counter(pull["head_branch"] for pull in pulls)
        violations = [f"{name} has {n} pull requests" for name, n in count.items() if n > 1]
        pull_of = {p["head_branch"]: p for p in pulls if p["state"] in ("open", "merged")}
        branches = self._branches()
        for job in jobs:
            pull, head = pull_of.pop(job["branch"], None), branches.pop(job["branch"], None)
            if (job["status"] == "completed") != (pull is not None):
                violations.append(f"{job['id']} is {job['status']}, its pull request: {pull}")
            if pull is not None and not pull["head_commit"] == job["head_commit"] == head:
                violations.append(f"{job['id']}, its pull request and its branch differ")
            if head is not None and self._commits(head) != 1:
                violations.append(f"the branch of {job['id']} has {self._commits(head)} commits")
        violations += [f"pull request of {branch} has no job" for branch in pull_of]
        return violations + [f"branch {name} has no job" for name in branches if name != "main"]

    def _branches(self) -> dict[str, str]:
        (repository,) = self._fleet.repositories.glob("*.git")
        lines = git(repository, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)",
                    "refs/heads").splitlines()  # fmt: skip
        return dict(line.split(" ") for line in lines)

    def _commits(self, head: str) -> int:
        (repository,) = self._fleet.repositories.glob("*.git")
        return int(git(repository, "rev-list", "--count", f"main..{head}"))

    async def _check_deliveries(self, db: Database) -> list[str]:
        events = await db.fetch_all("SELECT id, job_id, sequence FROM events")
        deliveries = await db.fetch_all("SELECT * FROM deliveries")
        attempts = await db.fetch_all("SELECT delivery_id FROM delivery_attempts")
        recorded = Counter(row["delivery_id"] for row in attempts)
        count = Counter(delivery["event_id"] for delivery in deliveries)
        received = {(each.job_id, each.sequence) for each in self._fleet.received}
        violations = [
            f"event {event['sequence']} of {event['job_id']} has {count[event['id']]} deliveries"
            for event in events
            if count[event["id"]] != 1
        ]
        for each in deliveries:
            name = f"delivery of event {each['sequence']} of {each['job_id']}"
            if each["status"] == "pending":
                violations.append(f"{name} is pending")
            elif each["status"] == "delivered" and (each["job_id"], each["sequence"]) not in (
                received
            ):
                violations.append(f"{name} was not received")
            elif each["status"] == "failed" and recorded[each["id"]] < MAX_ATTEMPTS:
                violations.append(f"{name} failed after {recorded[each['id']]} attempts")
        return violations + await self._check_order(db)

    async def _check_order(self, db: Database) -> list[str]:
        """First attempts are made in order; one that failed may arrive after later events."""
        rows = await db.fetch_all(
            "SELECT d.job_id, d.sequence, MIN(a.at) AS first_at FROM deliveries d"
            " JOIN delivery_attempts a ON a.delivery_id = d.id GROUP BY d.job_id, d.sequence"
            " ORDER BY d.job_id, d.sequence"
        )
        times: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            times[row["job_id"]].append(row["first_at"])
        return [
            f"first attempts for {job_id} were made at {order}"
            for job_id, order in times.items()
            if order != sorted(order)
        ]

    async def _check_rest(self, db: Database) -> list[str]:
        kept = await db.fetch_all("SELECT job_id FROM kept_work")
        return [f"work of {row['job_id']} is still kept" for row in kept]

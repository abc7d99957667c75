"""Reads the store, git, the platform, the receiver and the machine after a run, and names what is
wrong.

The rules, none of which depends on clocks of different machines:

- A job that was answered with 202 exists once and entered exactly one final state, once.
- It failed only for what its agent did, because a client cancelled it, or with `worker_lost` after
  as many lost claims as the settings allow. Each lost claim that counts has a fault as its cause.
- A claim counts as lost only if its process has ended: one that was cut off returns.
- It has one pull request if it completed and none otherwise, with one commit: that of the job. A
  job that was cancelled has no branch, unless something happened while it was pushed.
- No claim began an agent after the work of the job was kept, which the fences order, or pushed.
- The log has the lines of each run once and in order; if the run ended by itself, all of them.
- A claim was ended, and a job was started, by the process that holds the claim, or by others after
  the lease expired, for a cancel, or to keep finished work (PostgreSQL only: it knows the writer).
- Every event has a delivery, which was received or has failed after all retries. An event arrives
  before earlier ones of its job only if their first attempts failed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentjobs.jobs.queue.claim import PUBLISHER
from agentjobs.store.database import Database, Row
from agentjobs.store.opening import open_unchecked
from tests.faults import history
from tests.faults.fleet import Fleet
from tests.faults.phases import Report
from tests.faults.run_checks import FINAL, check_logs, check_parallel
from tests.faults.schedule import OF_PLATFORM, OF_RECEIVER, Schedule
from tests.support.service import git

MAX_ATTEMPTS = 4
RETRIES = "AGENTJOBS_LOST_WORKER_RETRIES"
_DEFAULT_RETRIES = "2"
LOST_PREPARATIONS = 10
_LETTERS = {
    "job.queued": "Q",
    "job.started": "S",
    "job.completed": "C",
    "job.failed": "F",
    "pr.review_requested": "R",
}
LEGAL_EVENTS = re.compile("Q(SQ)*(SCR|S?F)")
_FAILURE_OF = {"idle": "no_changes", "crash": "agent_failed"}
_HARMLESS = (*OF_PLATFORM, *OF_RECEIVER)
_UNSETTLED = (
    "SELECT (SELECT count(*) FROM jobs WHERE status IN ('queued', 'running'))"
    " + (SELECT count(*) FROM deliveries WHERE status = 'pending') AS open"
)


def _is_claim(row: Row) -> bool:
    """Whether a worker claims the job, or a process its work."""
    if row["owner"] == PUBLISHER:
        return row["old_owner"] == PUBLISHER and row["fence"] != row["old_fence"]
    return row["owner"] is not None and row["old_owner"] is None


def letters(events: Iterable[Row]) -> str:
    return "".join(_LETTERS[row["event"]] for row in events)


@dataclass(frozen=True)
class AcceptedJob:
    """A job that was answered with 202, and whether the client sent a cancel."""

    id: str
    agent: str
    is_cancelled: bool = False
    is_on_platform: bool = False


async def is_settled(url: str) -> bool:
    """False also while the database is away."""
    return await _count(url, _UNSETTLED) == 0


async def count_workers(url: str) -> int:
    return await _count(url, "SELECT count(*) AS open FROM workers") or 0


async def _count(url: str, sql: str) -> int | None:
    try:
        db = await open_unchecked(url, listen=False)
        try:
            row = await db.fetch_one(sql)
            return None if row is None else int(row["open"])
        finally:
            await db.close()
    except Exception:  # noqa: BLE001 - each engine has its own errors, and a bound ends the wait
        return None


class Checker:
    """`takeovers` and `kept` tell how many runs the faults met."""

    def __init__(
        self,
        fleet: Fleet,
        schedule: Schedule,
        accepted: list[AcceptedJob],
        reports: list[Report],
    ) -> None:
        self._fleet = fleet
        self._schedule = schedule
        self._accepted = {job.id: job for job in accepted}
        self._reports = reports
        self._claimed = {
            (report.job_id, report.fence): report for report in reports if report.phase == "claimed"
        }
        self.takeovers = 0
        self.kept = 0

    async def check(self, url: str) -> list[str]:
        db = await open_unchecked(url, listen=False)
        try:
            jobs = await db.fetch_all(
                "SELECT *, EXISTS (SELECT 1 FROM job_queue WHERE job_id = id) AS is_queued"
                " FROM jobs ORDER BY id"
            )
            changes = await history.load(db)
            lost = await db.fetch_all("SELECT * FROM lost_claims ORDER BY lost_at")
            self.kept = sum(job["kept_at"] is not None for job in jobs)
            return [
                *self._check_jobs(jobs, lost),
                *self._check_lost_claims(lost),
                *check_parallel(self._reports, self._schedule.max_parallel),
                *self.check_history(changes),
                *await self._check_events(db, jobs),
                *await self._check_pulls(db, jobs),
                *await self._check_deliveries(db),
                *await self._check_kept_work(db),
                *await check_logs(db, jobs, changes, self._reports),
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

    # Jobs

    def _check_jobs(self, jobs: list[Row], lost: list[Row]) -> Iterator[str]:
        ids = {job["id"] for job in jobs}
        yield from (f"{job_id} was accepted and is lost" for job_id in self._accepted.keys() - ids)
        yield from (f"{job_id} was created twice" for job_id in ids - self._accepted.keys())
        for job in jobs:
            if job["status"] not in FINAL:
                yield f"{job['id']} is {job['status']}"
            elif job["id"] in self._accepted and not self._is_expected(job, lost):
                yield (
                    f"{job['id']} ({job['agent']}) is {job['status']}: {job['error_code']}"
                    f" {job['error_message']}"
                )
            if job["is_queued"]:
                yield f"{job['id']} is still in the queue"

    def _is_expected(self, job: Row, lost: list[Row]) -> bool:
        accepted = self._accepted[job["id"]]
        codes = {_FAILURE_OF.get(accepted.agent)}
        if accepted.is_cancelled:
            codes.add("cancelled")
        started = [
            bool(row["started"])
            for row in lost
            if row["job_id"] == job["id"] and self._is_lost(row)
        ]
        retries = int(dict(self._schedule.settings).get(RETRIES, _DEFAULT_RETRIES))
        if sum(started) > retries or len(started) - sum(started) >= LOST_PREPARATIONS:
            codes.add("worker_lost")
        return job["error_code"] in codes

    def _is_lost(self, claim: Row) -> bool:
        """Whatever the store says: a worker that has not ended was only cut off, and returned."""
        report = self._claimed.get((claim["job_id"], claim["fence"]))
        return report is None or report.pid != self._fleet.processes[report.process].pid

    def _check_lost_claims(self, lost: list[Row]) -> Iterator[str]:
        """A worker that nothing happened to is never counted as lost."""
        for row in lost:
            report = self._claimed.get((row["job_id"], row["fence"]))
            if not row["was_alive"] and not self._was_disturbed(report):
                yield (
                    f"claim {row['fence']} of {row['job_id']} counts as lost, but nothing happened"
                    f" to its worker {'' if report is None else report.process}"
                )

    def _was_disturbed(self, claimed: Report | None) -> bool:
        return any(
            fault.fault not in _HARMLESS
            and (
                claimed is None
                or (fault.process in ("", claimed.process) and fault.ended_ms >= claimed.at_ms)
            )
            for fault in self._fleet.disturbances
        )

    # Claims

    def check_history(self, changes: dict[str, list[Row]]) -> Iterator[str]:
        for job_id, rows in changes.items():
            final = [row["status"] for row in rows if row["status"] != row["old_status"]]
            if sum(status in FINAL for status in final) > 1:
                yield f"{job_id} had the states {final}"
            yield from self._check_agents(job_id, rows)
            yield from self._check_writers(job_id, rows)
            claims = sum(_is_claim(row) for row in rows)
            self.takeovers += max(0, claims - 1)

    def _check_agents(self, job_id: str, rows: list[Row]) -> Iterator[str]:
        reports = [report for report in self._reports if report.job_id == job_id]
        agents = [report.fence for report in reports if report.phase == "started"]
        phases = [report.phase for report in reports]
        if "pushed" in phases and "started" in phases[phases.index("pushed") :]:
            yield f"{job_id} ran its agent after its work was pushed"
        started = {row["fence"] for row in rows if row["status"] == "running"}
        kept = [row["fence"] for row in rows if row["kept"] is not None]
        for fence in agents:
            if fence not in started:
                yield f"{job_id} ran its agent under claim {fence} without being started"
            if kept and fence >= kept[0]:
                yield f"{job_id} ran its agent after its work was kept"

    def _check_writers(self, job_id: str, rows: list[Row]) -> Iterator[str]:
        holder = ""
        for row in rows:
            if row["old_owner"] is not None and row["fence"] < row["old_fence"] + (
                row["owner"] != row["old_owner"]
            ):
                yield f"{job_id}: a claim ended without raising the fence {row['old_fence']}"
            if row["old_owner"] is not None and self._fleet.deployment.knows_writers:
                is_allowed = (
                    row["writer"] == holder
                    # Nobody publishes the work, or the lease has expired.
                    or row["at"] > (row["old_lease"] or 0)
                    or row["status"] == "cancelled"
                    or row["owner"] == PUBLISHER != row["old_owner"]
                )
                if not is_allowed:
                    yield (
                        f"{job_id}: {row['writer']} changed it to {row['status']} under claim"
                        f" {row['old_fence']} of {holder}"
                    )
            if _is_claim(row):
                holder = row["writer"]

    async def _check_kept_work(self, db: Database) -> list[str]:
        kept = await db.fetch_all("SELECT job_id FROM kept_work")
        return [f"work of {row['job_id']} is still kept" for row in kept]

    # Events

    async def _check_events(self, db: Database, jobs: list[Row]) -> list[str]:
        rows = await db.fetch_all("SELECT * FROM events ORDER BY job_id, sequence")
        violations = []
        for job in jobs:
            events = [row for row in rows if row["job_id"] == job["id"]]
            order = letters(events)
            if not LEGAL_EVENTS.fullmatch(order):
                violations.append(f"{job['id']} has the events {order}")
            if [row["sequence"] for row in events] != list(range(1, len(events) + 1)):
                violations.append(f"{job['id']} lacks an event")
            if ("C" in order) != (job["status"] == "completed"):
                violations.append(f"{job['id']} is {job['status']} with the events {order}")
        return violations

    async def _check_deliveries(self, db: Database) -> list[str]:
        events = await db.fetch_all("SELECT id, job_id, sequence FROM events")
        deliveries = await db.fetch_all("SELECT * FROM deliveries")
        attempts = await db.fetch_all(
            "SELECT delivery_id, error_class FROM delivery_attempts ORDER BY delivery_id, id"
        )
        results: dict[str, list[str | None]] = defaultdict(list)
        for row in attempts:
            results[row["delivery_id"]].append(row["error_class"])
        count = Counter(delivery["event_id"] for delivery in deliveries)
        violations = [
            f"event {event['sequence']} of {event['job_id']} has {count[event['id']]} deliveries"
            for event in events
            if count[event["id"]] != 1
        ]
        arrivals = self._arrivals()
        for each in deliveries:
            name = f"delivery of event {each['sequence']} of {each['job_id']}"
            if each["status"] == "pending":
                violations.append(f"{name} is pending")
            elif each["status"] == "delivered":
                if each["sequence"] not in arrivals[each["job_id"]]:
                    violations.append(f"{name} was not received")
            elif len(results[each["id"]]) < MAX_ATTEMPTS:
                violations.append(f"{name} failed after {len(results[each['id']])} attempts")
            is_late = any(
                sequence > each["sequence"]
                for sequence in _before(arrivals[each["job_id"]], each["sequence"])
            )
            if is_late and not any(results[each["id"]][:1]):
                violations.append(
                    f"{name} arrived after later ones although its first attempt succeeded:"
                    f" {arrivals[each['job_id']]}"
                )
        return violations

    def _arrivals(self) -> dict[str, list[int]]:
        """The events of each job in the order in which they first arrived."""
        arrivals: dict[str, list[int]] = defaultdict(list)
        for received in self._fleet.deployment.receiver.received:
            if received.sequence not in arrivals[received.job_id]:
                arrivals[received.job_id].append(received.sequence)
        return arrivals

    # Pull requests

    async def _check_pulls(self, db: Database, jobs: list[Row]) -> list[str]:
        pulls = await db.fetch_all("SELECT * FROM pulls")
        count = Counter(pull["head_branch"] for pull in pulls)
        violations = [f"{name} has {n} pull requests" for name, n in count.items() if n > 1]
        pull_of = {p["head_branch"]: p for p in pulls if p["state"] in ("open", "merged")}
        for job in jobs:
            repository = self._repository(job)
            head = _branches(repository).get(job["branch"])
            pull = pull_of.pop(job["branch"], None)
            if (job["status"] == "completed") != (pull is not None):
                violations.append(f"{job['id']} is {job['status']}, its pull request: {pull}")
            if pull is not None and not pull["head_commit"] == job["head_commit"] == head:
                violations.append(f"{job['id']}, its pull request and its branch differ")
            if head is not None and _commits(repository, head) != 1:
                violations.append(f"the branch of {job['id']} has several commits")
            if head is not None and job["status"] == "cancelled" and not self._fleet.was_disturbed:
                violations.append(f"{job['id']} was cancelled and has a branch")
            violations += self._check_platform(job)
        violations += [f"pull request of {branch} has no job" for branch in pull_of]
        known = {"main", *(job["branch"] for job in jobs)}
        return violations + [
            f"branch {name} has no job"
            for repository in self._repositories()
            for name in _branches(repository)
            if name not in known
        ]

    def _check_platform(self, job: Row) -> Iterator[str]:
        platform = self._fleet.deployment.platform
        accepted = self._accepted.get(job["id"])
        if platform is None or accepted is None or not accepted.is_on_platform:
            return
        count = len(platform.pulls_of(job["branch"]))
        if count != (job["status"] == "completed"):
            yield f"{job['id']} is {job['status']}, and the platform has {count} pull requests"

    def _repository(self, job: Row) -> Path:
        platform, accepted = self._fleet.deployment.platform, self._accepted.get(job["id"])
        if platform is not None and accepted is not None and accepted.is_on_platform:
            return platform.repository
        return self._fleet.deployment.repositories / f"{job['repo_id']}.git"

    def _repositories(self) -> list[Path]:
        """Copies of the platform's repository have only its default branch."""
        platform = self._fleet.deployment.platform
        local = self._fleet.deployment.repositories.glob("*.git")
        return [*local, *([] if platform is None else [platform.repository])]


def _before(arrivals: list[int], sequence: int) -> list[int]:
    return arrivals[: arrivals.index(sequence)] if sequence in arrivals else []


def _branches(repository: Path) -> dict[str, str]:
    lines = git(repository, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)",
                "refs/heads").splitlines()  # fmt: skip
    return dict(line.split(" ") for line in lines)


def _commits(repository: Path, head: str) -> int:
    return int(git(repository, "rev-list", "--count", f"main..{head}"))

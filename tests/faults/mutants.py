"""Defects that the checker must detect, as edits of a copy of the source.

Each has a scenario that finds it, which `tests/mutants` runs with and without the defect. The
defences overlap: a random schedule needs many seeds. Every process reports from where it loaded
the service, so that a run with another copy fails.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import SOURCES


@dataclass(frozen=True)
class Edit:
    """`old` occurs exactly once in the module."""

    module: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """`scenario` is the schedule that detects it, and `violation` a part of what that names."""

    scenario: str
    violation: str
    edits: tuple[Edit, ...]


OF_CLAIMS: dict[str, Mutant] = {
    # A worker whose claim has ended can still store the outcome of its run.
    "finish-without-fence": Mutant(
        "late-failure",
        "changed it to failed under claim",
        (
            Edit(
                "agentjobs/jobs/queue/transition.py",
                "(q.fence = {held_fence} AND q.lease",
                "(q.lease",
            ),
            Edit(
                "agentjobs/jobs/operations/finish.py",
                '{(row["id"], row["fence"]): row for row in rows}',
                '{(job.id, job.fence): row for row in rows for job in jobs if job.id == row["id"]}',
            ),
        ),
    ),
    # A job that is complete can be completed again.
    "completed-twice": Mutant(
        "late-completion",
        "has the events QSCRCR",
        (
            # The job stays in the queue.
            Edit(
                "agentjobs/jobs/queue/transition.py",
                "dict.fromkeys(FINAL, _LEAVE_QUEUE)",
                'dict.fromkeys(FINAL, f"{_END_CLAIM}{{from_rows}}{{where}} RETURNING job_id")',
            ),
            Edit(
                "agentjobs/jobs/queue/transition.py",
                "in list_sources(to))",
                "in {*list_sources(to), *FINAL})",
            ),
            Edit(
                "agentjobs/jobs/queue/transition.py",
                "(q.fence = {held_fence} AND q.lease_owner IS NOT NULL)",
                "(q.fence >= {held_fence})",
            ),
            # A process whose claim has ended goes on.
            Edit(
                "agentjobs/store/leases.py",
                "                    if not await renew():\n"
                "                        raise ClaimLost\n",
                "                    await renew()\n",
            ),
            Edit(
                "agentjobs/store/leases.py",
                "            if clock() >= ends_at:\n                raise ClaimLost\n",
                "",
            ),
        ),
    ),
    # A worker that was only cut off counts as a lost one.
    "cut-off-counts": Mutant(
        "cut-off-then-killed",
        "is failed: worker_lost",
        (
            Edit(
                "agentjobs/jobs/queue/lost_claims.py",
                "SET was_alive = TRUE",
                "SET was_alive = FALSE",
            ),
            Edit(
                "agentjobs/jobs/queue/lost_claims.py",
                "w.heartbeat_at > q.lease_expires_at",
                "1 = 0",
            ),
        ),
    ),
    # Nobody learns that a job has returned to the queue.
    "event-lost": Mutant(
        "late-failure",
        "lacks an event",
        (
            Edit(
                "agentjobs/jobs/queue/transition.py",
                "    emitted = [_EVENT_OF[change.to]]\n",
                "    emitted = [_EVENT_OF[change.to]] if change.to != QUEUED else []\n",
            ),
        ),
    ),
}
OF_OUTAGES: dict[str, Mutant] = {
    # Leases that expired while the database hung are those of lost workers.
    "hang-counts": Mutant(
        "database-hangs",
        "is failed: worker_lost",
        (
            Edit(
                "agentjobs/jobs/operations/rescue.py",
                "    if not may_judge():\n",
                "    if False:\n",
            ),
            Edit(
                "agentjobs/jobs/operations/rescue.py",
                'report_ms is None or row["lease_expires_at"] + report_ms <= now',
                "True",
            ),
        ),
    ),
    # A job fails because the machine of its worker has no process left.
    "shortage-fails-job": Mutant(
        "no-processes",
        "is failed: sandbox_error",
        (
            Edit(
                "agentjobs_worker/run/failures.py",
                "    if is_host_exhausted(error):\n",
                "    if False:\n",
            ),
            Edit(
                "agentjobs_worker/sandbox/protocol.py",
                "HostExhausted(SandboxLost)",
                "HostExhausted(SandboxError)",
            ),
        ),
    ),
    # A worker that lost its claims takes as many jobs as before.
    "starved-claims-all": Mutant(
        "two-jobs-lost",
        "2 jobs ran at a time",
        (
            Edit(
                "agentjobs_worker/loops/claim_limits.py",
                "max(1, self._current_limit() // 2)",
                "self._slots",
            ),
        ),
    ),
    # Of several events that are stored together, only the first one is delivered.
    "delivery-lost": Mutant(
        "database-away-while-logging",
        "has 0 deliveries",
        (
            Edit(
                "agentjobs/webhooks/events.py",
                "    return deliveries\n",
                "    return deliveries[:1]\n",
            ),
            Edit(
                "agentjobs/webhooks/events.py",
                "FROM emitted e JOIN",
                "FROM (SELECT * FROM emitted LIMIT 1) e JOIN",
            ),
        ),
    ),
    # Output that could not be stored at once is gone.
    "log-line-lost": Mutant(
        "database-away-while-logging",
        "lines of its last run",
        (
            Edit(
                "agentjobs_worker/logs/writer.py",
                "                self._pending.appendleft(chunk)\n",
                "",
            ),
        ),
    ),
}
OF_PUBLISHING: dict[str, Mutant] = {
    # A push that waited for its repository lands although its job was cancelled meanwhile.
    "push-after-cancel": Mutant(
        "cancelled-before-push",
        "was cancelled and has a branch",
        (
            Edit(
                "agentjobs/web/git/routes.py",
                "            (await authorize(request)).check_write()\n",
                "",
            ),
        ),
    ),
    # The agent runs again although its work was kept.
    "kept-work-ignored": Mutant(
        "drained-while-pushing",
        "ran its agent after its work was kept",
        (
            Edit(
                "agentjobs/jobs/operations/finish.py",
                "    if job.kept_at is not None:\n        return await publish_later",
                "    if False:\n        return await publish_later",
            ),
            Edit(
                "agentjobs/jobs/queue/transition.py",
                '" AND j.kept_at IS NULL"',
                '""',
            ),
        ),
    ),
    # The agent runs again although its pull request is open.
    "pull-request-forgotten": Mutant(
        "killed-after-publishing",
        "ran its agent after its work was pushed",
        (
            Edit(
                "agentjobs/jobs/operations/rescue.py",
                "    if pull is None:\n",
                "    if True:\n",
            ),
            Edit(
                "agentjobs/jobs/operations/rescue.py",
                "SELECT 1 AS found FROM job_queue q WHERE {is_on_worker('q')}",
                "SELECT 1 AS found FROM job_queue q WHERE q.lease_owner IS NOT NULL",
            ),
            Edit(
                "agentjobs/jobs/operations/rescue.py",
                "{_CLAIMED} WHERE {is_on_worker('q')}",
                "{_CLAIMED} WHERE q.lease_owner IS NOT NULL",
            ),
            Edit(
                "agentjobs/jobs/queue/claim_queries.py",
                " OR q.lease_expires_at < {DATABASE_NOW})",
                " OR FALSE)",
            ),
            Edit(
                "agentjobs/jobs/queue/kept_work.py",
                ":head_commit, :bundle)",
                ":head_commit, :bundle) ON CONFLICT (job_id) DO NOTHING",
            ),
            Edit(
                "agentjobs/jobs/queue/transition.py",
                '" AND j.kept_at IS NULL"',
                '""',
            ),
            Edit(
                "agentjobs/publishing/earlier_attempt.py",
                "if head is None else PushedWork(base, head)",
                "if True else PushedWork(base, head or base)",
            ),
        ),
    ),
    # Every attempt has a branch of its own, and so a pull request.
    "published-twice": Mutant(
        "killed-after-opening",
        "has no job",
        (
            Edit(
                "agentjobs/jobs/queue/claim.py",
                "attempt=row",
                'branch=row["branch"] + str(row["fence"]), attempt=row',
            ),
            Edit(
                "agentjobs/publishing/hosted_repo.py",
                "if self.is_remote and not await",
                "if False and await",
            ),
        ),
    ),
}
MUTANTS = {**OF_CLAIMS, **OF_OUTAGES, **OF_PUBLISHING}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[Path]:
    """A copy of the source with the defect."""
    directory = Path(tempfile.mkdtemp(prefix=f"agentjobs-mutant-{name}-"))
    try:
        # With the compiled modules, which are valid for the copies.
        for source in SOURCES:
            shutil.copytree(source, directory / "src", dirs_exist_ok=True)
        for edit in MUTANTS[name].edits:
            path = directory / "src" / edit.module
            path.write_text(_edited(edit, path))
        yield directory / "src"
    finally:
        shutil.rmtree(directory)


def _edited(edit: Edit, path: Path) -> str:
    text = path.read_text()
    assert text.count(edit.old) == 1, f"{edit.module} has {text.count(edit.old)} of {edit.old!r}"
    return text.replace(edit.old, edit.new)

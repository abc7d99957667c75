"""Rows of `pull_statuses`: what was reported on pull requests of platforms, when to look again.

`due_at` is queue, lease and backoff in one. `platform_sync` writes the statuses.
"""

from collections.abc import Collection

import msgspec

from agentjobs.platforms.protocol import StatusState
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import SECOND_MS

TOPIC = "statuses"
# Longer than a request with its retries.
LEASE_MS = 120 * SECOND_MS


class DueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed row with its pull request and its latest job.

    `job_status` is None if the job was deleted. `written_…` is what was reported last.
    """

    repo_id: str
    number: int
    lease_until: int
    failures: int
    written_job_id: str
    written_commit: str
    written_state: str
    job_id: str
    job_status: str | None
    job_agent: str | None
    job_error_code: str | None
    job_commit: str | None
    pull_state: str
    pull_commit: str
    branch: str
    organization_id: str
    organization: str
    full_name: str
    external_id: str
    connection_id: str


async def request_status(tx: Transaction, repo_id: str, branch: str, job_id: str) -> None:
    """Report on the open pull request of a branch, of which this is now the latest job.

    Ignores repositories that no platform hosts.
    """
    changed = await tx.execute(
        "INSERT INTO pull_statuses (repo_id, number, job_id, due_at, failures, written_job_id,"
        " head_commit, state) SELECT p.repo_id, p.number, CAST(:job_id AS TEXT),"
        " CAST(:now AS BIGINT), 0, '', '', '' FROM pulls p JOIN repos r ON r.id = p.repo_id"
        " WHERE p.repo_id = :repo_id AND p.head_branch = :branch AND p.state = 'open'"
        " AND r.connection_id IS NOT NULL"
        " ON CONFLICT (repo_id, number) DO UPDATE SET job_id = excluded.job_id,"
        " due_at = excluded.due_at, failures = 0",
        repo_id=repo_id,
        branch=branch,
        job_id=job_id,
        now=await tx.clock_ms(),
    )
    if changed:
        tx.announce(TOPIC)


async def look_again(tx: Transaction, repo_id: str, number: int) -> None:
    """The head of the pull request has changed."""
    changed = await tx.execute(
        "UPDATE pull_statuses SET due_at = :now, failures = 0"
        " WHERE repo_id = :repo_id AND number = :number",
        repo_id=repo_id,
        number=number,
        now=await tx.clock_ms(),
    )
    if changed:
        tx.announce(TOPIC)


async def retry_failed(tx: Transaction, connection_id: str) -> None:
    """Write those of a connection that failed again: a permission may have been granted."""
    await tx.execute(
        "UPDATE pull_statuses SET due_at = :now, failures = 0 WHERE error IS NOT NULL"
        " AND repo_id IN (SELECT id FROM repos WHERE connection_id = :connection_id)",
        connection_id=connection_id,
        now=await tx.clock_ms(),
    )
    tx.announce(TOPIC)


async def has_due_status(db: Database) -> bool:
    row = await db.fetch_one(
        "SELECT number FROM pull_statuses WHERE due_at <= :now LIMIT 1", now=await db.clock_ms()
    )
    return row is not None


@in_transaction
async def claim_due_status(tx: Transaction, left_out: Collection[str] = ()) -> DueStatus | None:
    """The one that has been due longest, of a connection whose platform is not resting.

    Those of the organizations `left_out` are not claimed.
    """
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT s.repo_id, s.number, s.failures, s.written_job_id,"
        " s.head_commit AS written_commit, s.state AS written_state, s.job_id,"
        " j.status AS job_status, j.agent AS job_agent, j.error_code AS job_error_code,"
        " j.head_commit AS job_commit, p.state AS pull_state, p.head_commit AS pull_commit,"
        " p.head_branch AS branch, o.name AS organization, r.full_name, r.external_id,"
        " r.organization_id, r.connection_id FROM pull_statuses s"
        " JOIN pulls p ON p.repo_id = s.repo_id AND p.number = s.number"
        " JOIN repos r ON r.id = s.repo_id JOIN organizations o ON o.id = r.organization_id"
        " JOIN platform_connections c ON c.id = r.connection_id"
        " LEFT JOIN jobs j ON j.id = s.job_id"
        " WHERE s.due_at <= :now AND r.disconnected_at IS NULL AND c.removed_at IS NULL"
        " AND (c.resting_until IS NULL OR c.resting_until <= :now)"
        " AND r.organization_id NOT IN (SELECT value FROM each(:left_out))"
        " ORDER BY s.due_at LIMIT 1 /*postgresql FOR UPDATE OF s SKIP LOCKED */",
        now=now,
        left_out=list(left_out),
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE pull_statuses SET due_at = :until WHERE repo_id = :repo_id AND number = :number",
        repo_id=row["repo_id"],
        number=row["number"],
        until=now + LEASE_MS,
    )
    return to_struct(row, DueStatus, lease_until=now + LEASE_MS)


async def finish(
    tx: Transaction, due: DueStatus, state: StatusState | None, wait_seconds: float | None
) -> None:
    """Store what was written, if anything; check again after `wait_seconds`, None for never."""
    now = await tx.clock_ms()
    due_at = None if wait_seconds is None else now + int(wait_seconds * SECOND_MS)
    await _release(tx, due, due_at, "failures = 0, error = NULL")
    if state is not None:
        await tx.execute(
            "UPDATE pull_statuses SET written_job_id = :job_id, head_commit = :head_commit,"
            " state = :state, written_at = :now WHERE repo_id = :repo_id AND number = :number",
            repo_id=due.repo_id,
            number=due.number,
            job_id=due.job_id,
            head_commit=due.pull_commit,
            state=state,
            now=now,
        )


async def fail(
    tx: Transaction, due: DueStatus, reason: str, wait_ms: int | None, *, is_outage: bool
) -> None:
    """Try again after the time; None for never. In an outage, others of the connection wait too."""
    now = await tx.clock_ms()
    due_at = None if wait_ms is None else now + wait_ms
    await _release(tx, due, due_at, "failures = failures + 1, error = :reason", reason=reason)
    if is_outage and due_at is not None:
        await tx.execute(
            "UPDATE pull_statuses SET due_at = :due_at WHERE due_at <= :now"
            " AND repo_id IN (SELECT id FROM repos WHERE connection_id = :connection_id)",
            due_at=due_at,
            now=now,
            connection_id=due.connection_id,
        )


async def _release(
    tx: Transaction, due: DueStatus, due_at: int | None, assignments: str, **values: str
) -> None:
    """A row that was made due meanwhile stays due."""
    await tx.execute(
        f"UPDATE pull_statuses SET {assignments}, due_at ="
        " CASE WHEN due_at = :lease_until THEN CAST(:due_at AS BIGINT) ELSE due_at END"
        " WHERE repo_id = :repo_id AND number = :number",
        repo_id=due.repo_id,
        number=due.number,
        lease_until=due.lease_until,
        due_at=due_at,
        **values,
    )


async def latest_error(db: Database, connection_id: str) -> str | None:
    """Why the latest result of a connection was not reported; None if it was."""
    row = await db.fetch_one(
        "SELECT s.error FROM pull_statuses s JOIN repos r ON r.id = s.repo_id"
        " WHERE r.connection_id = :connection_id ORDER BY s.job_id DESC LIMIT 1",
        connection_id=connection_id,
    )
    return None if row is None else row["error"]

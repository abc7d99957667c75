"""What is due for a repository, as rows of three queues; see `store/leases.py`.

Everybody may request work here; `inventory`, `advisories` and `platform_sync` claim it, do it and
keep its results in tables of their own.
"""

from typing import Any

from agentjobs.store.database import Transaction
from agentjobs.store.leases import DueColumn
from agentjobs_runtime.clock import SECOND_MS

INDEX = DueColumn("index_queue", "repo_id", "due_at", 15 * SECOND_MS, lease_column="lease_until")
SCAN = DueColumn("scan_queue", "repo_id", "due_at", 60 * SECOND_MS)
SYNC = DueColumn("sync_queue", "repo_id", "due_at", 30 * SECOND_MS, lease_column="lease_until")

INDEX_TOPIC = "index"
SCAN_TOPIC = "scan"
SYNC_TOPIC = "platforms"

_CONNECTED = "r.disconnected_at IS NULL"
_INDEXED = (
    f"{_CONNECTED} AND EXISTS (SELECT 1 FROM repo_index i"
    " WHERE i.repo_id = r.id AND i.indexed_commit IS NOT NULL)"
)


async def remove_requests(tx: Transaction, condition: str, **parameters: Any) -> None:
    """Nothing begins any more in the repositories `r` that satisfy the condition, which is SQL."""
    for table in ("index_queue", "sync_queue"):
        await tx.execute(
            f"UPDATE {table} SET due_at = NULL WHERE repo_id IN"
            f" (SELECT r.id FROM repos r WHERE {condition})",
            **parameters,
        )


async def request_index(tx: Transaction, repo_id: str) -> None:
    await _request(tx, "index_queue", "r.id = :repo_id", repo_id=repo_id)
    tx.announce(INDEX_TOPIC)


async def request_indexes(tx: Transaction, condition: str, **parameters: Any) -> None:
    """Make the indexed repositories `r` due that satisfy the condition and are not due."""
    await _request(tx, "index_queue", f"{_INDEXED} AND {condition}", unless_due=True, **parameters)


async def finish_index(tx: Transaction, repo_id: str, head: str) -> None:
    """A head that moved since the claim makes the repository due again immediately."""
    await tx.execute(
        "UPDATE index_queue SET failures = 0, due_at = CASE WHEN"
        " (SELECT head_commit FROM repos WHERE id = :repo_id) <> :head"
        " THEN CAST(:now AS BIGINT) END WHERE repo_id = :repo_id",
        repo_id=repo_id,
        head=head,
        now=await tx.clock_ms(),
    )


async def retry_index(tx: Transaction, repo_id: str, delay_ms: int) -> None:
    await tx.execute(
        "UPDATE index_queue SET failures = failures + 1, due_at = :due_at, lease_until = NULL"
        f" WHERE repo_id = (SELECT r.id FROM repos r WHERE r.id = :repo_id AND {_CONNECTED})",
        repo_id=repo_id,
        due_at=await tx.clock_ms() + delay_ms,
    )


async def request_scan(tx: Transaction, repo_id: str, delay_ms: int = 0) -> None:
    """Make the repository due for a scan of its dependencies."""
    await _request(tx, "scan_queue", "r.id = :repo_id", delay_ms=delay_ms, repo_id=repo_id)
    tx.announce(SCAN_TOPIC)


async def request_scans(
    tx: Transaction, condition: str, *, unless_due: bool = False, **parameters: Any
) -> None:
    """Make the indexed repositories `r` due that satisfy the condition."""
    where = f"{_INDEXED} AND {condition}"
    await _request(tx, "scan_queue", where, unless_due=unless_due, **parameters)
    tx.announce(SCAN_TOPIC)


async def request_first_sync(tx: Transaction, repo_id: str) -> None:
    await _request(tx, "sync_queue", "r.id = :repo_id", repo_id=repo_id)
    tx.announce(SYNC_TOPIC)


async def request_sync(tx: Transaction, *repo_ids: str) -> None:
    """Make the repositories due now, so that an error a job ran into appears on their pages.

    A repository whose last syncs failed keeps its backoff.
    """
    changed = await tx.execute(
        "UPDATE sync_queue SET due_at = :now, requested_at = :now"
        " WHERE repo_id IN (SELECT value FROM each(:ids)) AND failures = 0 AND due_at > :now",
        ids=list(repo_ids),
        now=await tx.clock_ms(),
    )
    if changed:
        tx.announce(SYNC_TOPIC)


async def retry_failed_syncs(tx: Transaction, connection_id: str) -> None:
    """Make repositories of a connection due whose last sync failed."""
    await tx.execute(
        "UPDATE sync_queue SET due_at = :now, failures = 0 WHERE repo_id IN"
        " (SELECT r.id FROM repos r JOIN repo_sync s ON s.repo_id = r.id"
        f"  WHERE r.connection_id = :id AND {_CONNECTED} AND s.error IS NOT NULL)",
        id=connection_id,
        now=await tx.clock_ms(),
    )
    tx.announce(SYNC_TOPIC)


async def record_change(tx: Transaction, condition: str, **parameters: Any) -> None:
    """A hook reported a change of the repositories `r`: their next sync reads them."""
    await tx.execute(
        "UPDATE sync_queue SET requested_at = :now"
        f" WHERE repo_id IN (SELECT r.id FROM repos r WHERE {_CONNECTED} AND {condition})",
        now=await tx.clock_ms(),
        **parameters,
    )


async def expedite_syncs(
    tx: Transaction, condition: str, *, gap_ms: int, during_backoff: bool, **parameters: Any
) -> None:
    """Sync the repositories `r` now, or `gap_ms` after their last sync.

    Without `during_backoff`, a repository whose syncs fail keeps its backoff.
    """
    last = "(SELECT s.synced_at FROM repo_sync s WHERE s.repo_id = sync_queue.repo_id)"
    only = "" if during_backoff else " AND failures = 0"
    await tx.execute(
        f"UPDATE sync_queue SET due_at = CASE WHEN {last} + :gap > :now THEN {last} + :gap"
        f" ELSE CAST(:now AS BIGINT) END WHERE due_at > :now{only}"
        f" AND repo_id IN (SELECT r.id FROM repos r WHERE {_CONNECTED} AND {condition})",
        now=await tx.clock_ms(),
        gap=gap_ms,
        **parameters,
    )


async def release_sync(
    tx: Transaction,
    repo_id: str,
    lease_until: int,
    due_at: int,
    *,
    has_failed: bool | None,
    claimed_at: int | None = None,
) -> None:
    """End a claim; a repository that was made due meanwhile stays due.

    `has_failed` is None if nothing was tried. Requests before `claimed_at` are done.
    """
    failures = {None: "failures", True: "failures + 1", False: "0"}[has_failed]
    await tx.execute(
        f"UPDATE sync_queue SET failures = {failures},"
        " requested_at = CASE WHEN requested_at > CAST(:claimed_at AS BIGINT)"
        "  OR CAST(:claimed_at AS BIGINT) IS NULL THEN requested_at END,"
        " due_at = CASE WHEN due_at = :lease_until THEN CAST(:due_at AS BIGINT) ELSE due_at END,"
        " lease_until = CASE WHEN lease_until = :lease_until THEN NULL ELSE lease_until END"
        f" WHERE repo_id = (SELECT r.id FROM repos r WHERE r.id = :repo_id AND {_CONNECTED})",
        repo_id=repo_id,
        lease_until=lease_until,
        due_at=due_at,
        claimed_at=claimed_at,
    )


async def postpone_syncs(
    tx: Transaction, connection_id: str, claimed_repo_id: str, failures: int, due_at: int
) -> None:
    """All repositories of a connection that failed wait, and the claim ends."""
    await tx.execute(
        "UPDATE sync_queue SET failures = :failures, due_at = :due_at,"
        " lease_until = CASE WHEN repo_id = :repo_id THEN NULL ELSE lease_until END"
        " WHERE repo_id IN"
        f" (SELECT r.id FROM repos r WHERE r.connection_id = :connection_id AND {_CONNECTED})",
        repo_id=claimed_repo_id,
        connection_id=connection_id,
        failures=failures,
        due_at=due_at,
    )


async def _request(
    tx: Transaction,
    table: str,
    condition: str,
    *,
    delay_ms: int = 0,
    unless_due: bool = False,
    **parameters: Any,
) -> None:
    only = f" WHERE {table}.due_at IS NULL" if unless_due else ""
    await tx.execute(
        f"INSERT INTO {table} (repo_id, due_at) SELECT r.id, CAST(:due_at AS BIGINT)"
        f" FROM repos r WHERE {condition}"
        f" ON CONFLICT (repo_id) DO UPDATE SET due_at = excluded.due_at{only}",
        due_at=await tx.clock_ms() + delay_ms,
        **parameters,
    )

"""The table `repo_imports`: a row per import until it completes or its failure is dismissed.

Does not know git. While a row is running, its repository is not connected, and the process that
runs the import renews the row's lease.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from agentjobs.repos.names import name_taken
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.problems import Problem

ImportState = Literal["running", "failed"]

LEASE_MS = 30 * SECOND_MS
MAX_RUNNING = 5
MAX_FAILED = 20
STOPPED = "The service stopped during the import; connect the repository again."
WAITING = "Queued"
CANCELLED = "The import was cancelled."


class ImportView(msgspec.Struct, frozen=True):
    """`message` is the progress, or the reason for the failure; `source` has no credential."""

    id: str
    full_name: str
    source: str
    state: ImportState
    message: str
    started_by: str
    created_at: int
    updated_at: int


async def list_imports(db: Database, organization_id: str) -> list[ImportView]:
    """Newest first."""
    rows = await db.fetch_all(
        "SELECT * FROM repo_imports WHERE organization_id = :organization_id ORDER BY id DESC",
        organization_id=organization_id,
    )
    return [_view(row) for row in rows]


async def dismiss(db: Database, organization_id: str, import_id: str) -> None:
    """Dismiss a failed import; raises Problem if there is none with this id."""
    if not await db.transact(delete_failed, organization_id, import_id):
        raise Problem(
            "import_not_found", "This import is running or no longer exists; reload the list."
        )


async def find_state(db: Database, import_id: str) -> ImportState | None:
    """None once its repository is connected, or its failure is dismissed."""
    row = await db.fetch_one("SELECT state FROM repo_imports WHERE id = :id", id=import_id)
    return None if row is None else row["state"]


async def insert(tx: Transaction, organization_id: str, view: ImportView) -> None:
    """Raises Problem unless the name is free; deletes earlier failed imports of this name."""
    # Two processes must not both find the name free.
    await tx.fetch_one(
        "SELECT id FROM organizations WHERE id = :id /*postgresql FOR NO KEY UPDATE */",
        id=organization_id,
    )
    await _check_name_is_free(tx, organization_id, view.full_name)
    await tx.execute(
        "DELETE FROM repo_imports WHERE organization_id = :organization_id AND state = 'failed'"
        " AND (full_name = :full_name OR id NOT IN (SELECT f.id FROM repo_imports f"
        "  WHERE f.organization_id = :organization_id AND f.state = 'failed'"
        "  ORDER BY f.id DESC LIMIT :limit))",
        organization_id=organization_id,
        full_name=view.full_name,
        limit=MAX_FAILED - 1,
    )
    await tx.execute(
        "INSERT INTO repo_imports (id, organization_id, full_name, source, state, message,"
        " started_by, created_at, updated_at, lease_until) VALUES (:id, :organization_id,"
        " :full_name, :source, :state, :message, :started_by, :created_at, :updated_at,"
        " :lease_until)",
        **msgspec.structs.asdict(view),
        organization_id=organization_id,
        lease_until=await tx.clock_ms() + LEASE_MS,
    )
    tx.announce("index")


async def fail(tx: Transaction, import_id: str, message: str) -> bool:
    """False if the import is not running."""
    changed = await tx.execute(
        "UPDATE repo_imports SET message = :message, state = 'failed', updated_at = :now"
        " WHERE id = :id AND state = 'running'",
        id=import_id,
        message=message,
        now=now_ms(),
    )
    tx.announce("index")
    return changed > 0


async def cancel(tx: Transaction, organization_id: str, import_id: str) -> str:
    """Mark a running import as failed and return its full name; raises Problem otherwise."""
    row = await tx.fetch_one(
        "SELECT full_name FROM repo_imports"
        " WHERE organization_id = :organization_id AND id = :id AND state = 'running'",
        organization_id=organization_id,
        id=import_id,
    )
    if row is None or not await fail(tx, import_id, CANCELLED):
        raise Problem("import_not_found", "This import is no longer running; reload the list.")
    full_name: str = row["full_name"]
    return full_name


async def delete_failed(tx: Transaction, organization_id: str, import_id: str) -> bool:
    return await _delete(tx, organization_id, import_id, "failed")


async def complete(tx: Transaction, organization_id: str, import_id: str) -> bool:
    """Delete the row when its repository is connected; returns False if it is not running."""
    return await _delete(tx, organization_id, import_id, "running")


async def renew(tx: Transaction, import_id: str, progress: str) -> bool:
    """False if the import is not running any more: another process cancelled it."""
    changed = await tx.execute(
        "UPDATE repo_imports SET lease_until = :until, message = :progress, updated_at = :now"
        " WHERE id = :id AND state = 'running'",
        id=import_id,
        until=await tx.clock_ms() + LEASE_MS,
        progress=progress,
        now=now_ms(),
    )
    tx.announce("index")
    return changed > 0


async def fail_abandoned(
    tx: Transaction, may_judge: Callable[[], bool] = lambda: True
) -> list[str]:
    """Fail imports whose process has ended, and return the ids of those that may have files.

    `may_judge`: whether their processes were able to renew their leases.
    """
    rows = await tx.fetch_all(
        "SELECT id FROM repo_imports WHERE lease_until <= :now"
        " OR (lease_until IS NULL AND state = 'running')",
        now=await tx.clock_ms(),
    )
    if not may_judge():
        return []
    for row in rows:
        await fail(tx, row["id"], STOPPED)
    return [row["id"] for row in rows]


async def clear_lease(tx: Transaction, import_id: str) -> None:
    """The files of a failed import are removed."""
    await tx.execute(
        "UPDATE repo_imports SET lease_until = NULL WHERE id = :id AND state = 'failed'",
        id=import_id,
    )


async def _delete(
    tx: Transaction, organization_id: str, import_id: str, state: ImportState
) -> bool:
    deleted = await tx.execute(
        "DELETE FROM repo_imports"
        " WHERE organization_id = :organization_id AND id = :id AND state = :state",
        organization_id=organization_id,
        id=import_id,
        state=state,
    )
    tx.announce("index")
    return deleted > 0


async def _check_name_is_free(tx: Transaction, organization_id: str, full_name: str) -> None:
    connected = await tx.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :organization_id"
        " AND full_name = :full_name AND disconnected_at IS NULL",
        organization_id=organization_id,
        full_name=full_name,
    )
    if connected is not None:
        raise name_taken(full_name)
    rows = await tx.fetch_all(
        "SELECT full_name FROM repo_imports"
        " WHERE organization_id = :organization_id AND state = 'running'",
        organization_id=organization_id,
    )
    if any(row["full_name"] == full_name for row in rows):
        raise Problem(
            "name_taken", f"{full_name!r} is already being imported; wait for it to finish."
        )
    if len(rows) >= MAX_RUNNING:
        raise Problem(
            "too_many_imports",
            f"{len(rows)} repositories are already being imported; wait for one to finish.",
        )


def _view(row: Row) -> ImportView:
    return to_struct(row, ImportView, message=row["message"] or "")

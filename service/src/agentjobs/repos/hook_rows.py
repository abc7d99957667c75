"""Rows of `repo_hooks`: repositories for which the service registers a webhook on their platform.

`platform_sync` registers, checks and removes the webhooks. Secrets are sealed bytes here.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from agentjobs.organizations.sealing import Sealed
from agentjobs.repos.queues import request_sync
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import SECOND_MS

# covered: another webhook serves the repository; refused: the platform refuses ours.
HookState = Literal["pending", "registered", "covered", "refused"]

_SELECT = (
    "SELECT h.repo_id, r.full_name, h.state, h.note, h.delivery, h.is_failing, h.checked_at,"
    " h.removal_due_at IS NOT NULL AS is_removing"
    " FROM repo_hooks h JOIN repos r ON r.id = h.repo_id"
)


class HookRow(msgspec.Struct, frozen=True, kw_only=True):
    """What pages and commands show."""

    repo_id: str
    full_name: str
    state: HookState
    note: str | None
    delivery: str
    is_failing: bool
    checked_at: int | None
    is_removing: bool = False


class CheckedHook(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    state: HookState
    note: str | None = None
    delivery: str = ""
    is_failing: bool = False


class DueHook(msgspec.Struct, frozen=True):
    """A webhook whose check is due."""

    has_secret: bool
    failures: int


class DueRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook to be removed; the repository may be disconnected."""

    repo_id: str
    organization: str
    full_name: str
    external_id: str
    platform: str
    connection_id: str
    failures: int


async def request_hooks(tx: Transaction, repo_ids: Sequence[str]) -> None:
    """Register webhooks for these repositories, at a sync that is due now."""
    await tx.execute(
        "INSERT INTO repo_hooks (repo_id, sealed, key_id, state, delivery, is_failing, failures,"
        " due_at) SELECT value, :nothing, '', 'pending', '', :no, 0, CAST(:now AS BIGINT)"
        " FROM each(:ids) WHERE value <> ''"
        " ON CONFLICT (repo_id) DO UPDATE SET due_at = excluded.due_at, removal_due_at = NULL,"
        " failures = 0",
        ids=list(repo_ids),
        nothing=b"",
        no=False,
        now=await tx.clock_ms(),
    )
    await request_sync(tx, *repo_ids)


async def request_removal(tx: Transaction, repo_ids: Sequence[str]) -> None:
    """Remove the webhooks of these repositories; those without one are ignored."""
    await tx.execute(
        "UPDATE repo_hooks SET removal_due_at = :now, failures = 0"
        " WHERE repo_id IN (SELECT value FROM each(:ids)) AND removal_due_at IS NULL",
        ids=list(repo_ids),
        now=await tx.clock_ms(),
    )


async def make_due(tx: Transaction, connection_id: str, *, with_new_secrets: bool = False) -> None:
    """Check the webhooks of a connection now.

    `with_new_secrets`: their secrets are replaced; until then their deliveries are refused.
    """
    rows = await tx.fetch_all(
        "SELECT h.repo_id FROM repo_hooks h JOIN repos r ON r.id = h.repo_id"
        " WHERE r.connection_id = :connection_id AND h.removal_due_at IS NULL",
        connection_id=connection_id,
    )
    if not rows:
        return
    repo_ids = [row["repo_id"] for row in rows]
    forgotten = ", sealed = :nothing, key_id = ''" if with_new_secrets else ""
    parameters = {"nothing": b""} if with_new_secrets else {}
    await tx.execute(
        f"UPDATE repo_hooks SET due_at = :now, failures = 0{forgotten}"
        " WHERE repo_id IN (SELECT value FROM each(:ids))",
        ids=repo_ids,
        now=await tx.clock_ms(),
        **parameters,
    )
    await request_sync(tx, *repo_ids)


async def make_all_due(tx: Transaction) -> None:
    """The service has another address, which platforms do not know yet."""
    await tx.execute(
        "UPDATE repo_hooks SET due_at = :now WHERE removal_due_at IS NULL", now=await tx.clock_ms()
    )


async def find_due(db: Database, repo_id: str) -> DueHook | None:
    row = await db.fetch_one(
        "SELECT repo_id, key_id, failures FROM repo_hooks WHERE repo_id = :repo_id"
        " AND removal_due_at IS NULL AND due_at <= :now",
        repo_id=repo_id,
        now=await db.clock_ms(),
    )
    return None if row is None else DueHook(bool(row["key_id"]), row["failures"])


async def store_secret(tx: Transaction, repo_id: str, sealed: Sealed) -> None:
    await tx.execute(
        "UPDATE repo_hooks SET sealed = :sealed, key_id = :key_id WHERE repo_id = :repo_id",
        repo_id=repo_id,
        sealed=sealed.data,
        key_id=sealed.key_id,
    )


async def sealed_secret(db: Database, connection_id: str, repo_id: str) -> Row | None:
    """If `platform` and `organization_id` are given, includes disconnected repositories."""
    return await db.fetch_one(
        "SELECT h.sealed, c.platform, c.organization_id FROM repo_hooks h"
        " JOIN repos r ON r.id = h.repo_id JOIN platform_connections c ON c.id = r.connection_id"
        " WHERE h.repo_id = :repo_id AND c.id = :connection_id AND c.removed_at IS NULL"
        " AND h.key_id <> ''",
        connection_id=connection_id,
        repo_id=repo_id,
    )


async def record_check(
    tx: Transaction, repo_id: str, checked: CheckedHook, wait_seconds: float
) -> None:
    """The next check is due after `wait_seconds`."""
    now = await tx.clock_ms()
    await tx.execute(
        "UPDATE repo_hooks SET state = :state, note = :note, delivery = :delivery,"
        " is_failing = :is_failing, checked_at = :now, due_at = :due_at,"
        " failures = CASE WHEN :state = 'pending' THEN failures + 1 ELSE 0 END"
        " WHERE repo_id = :repo_id AND removal_due_at IS NULL",
        repo_id=repo_id,
        now=now,
        due_at=now + int(wait_seconds * SECOND_MS),
        **msgspec.structs.asdict(checked),
    )


async def due_removals(
    db: Database, limit: int, *, connection_id: str | None = None
) -> list[DueRemoval]:
    """If `connection_id` is given, lists its repositories whether or not they are due."""
    named = "r.connection_id = :connection_id" if connection_id else "h.removal_due_at <= :now"
    parameters = {"connection_id": connection_id} if connection_id else {"now": await db.clock_ms()}
    rows = await db.fetch_all(
        "SELECT h.repo_id, h.failures, r.full_name, r.external_id, r.platform, r.connection_id,"
        " o.name AS organization FROM repo_hooks h JOIN repos r ON r.id = h.repo_id"
        " JOIN organizations o ON o.id = r.organization_id"
        f" WHERE h.removal_due_at IS NOT NULL AND {named} ORDER BY h.removal_due_at LIMIT :limit",
        limit=limit,
        **parameters,
    )
    return [to_struct(row, DueRemoval) for row in rows]


async def retry_removal(tx: Transaction, repo_id: str, wait_ms: int) -> None:
    await tx.execute(
        "UPDATE repo_hooks SET removal_due_at = :due_at, failures = failures + 1"
        " WHERE repo_id = :repo_id AND removal_due_at IS NOT NULL",
        repo_id=repo_id,
        due_at=await tx.clock_ms() + wait_ms,
    )


async def forget_hook(tx: Transaction, repo_id: str) -> None:
    """Unless it was requested again meanwhile."""
    await tx.execute(
        "DELETE FROM repo_hooks WHERE repo_id = :repo_id AND removal_due_at IS NOT NULL",
        repo_id=repo_id,
    )


async def hooks_of_connection(db: Database | Transaction, connection_id: str) -> list[HookRow]:
    """Webhooks of connected repositories, sorted by name."""
    rows = await db.fetch_all(
        f"{_SELECT} WHERE r.connection_id = :connection_id AND r.disconnected_at IS NULL"
        " ORDER BY r.full_name",
        connection_id=connection_id,
    )
    return [_hook_from(row) for row in rows]


async def hook_of_repo(db: Database, repo_id: str) -> HookRow | None:
    row = await db.fetch_one(f"{_SELECT} WHERE h.repo_id = :repo_id", repo_id=repo_id)
    return None if row is None else _hook_from(row)


def seal_context(organization_id: str, repo_id: str) -> tuple[str, ...]:
    return ("repo-hook", organization_id, repo_id)


def _hook_from(row: Row) -> HookRow:
    flags = {name: bool(row[name]) for name in ("is_failing", "is_removing")}
    return to_struct(row, HookRow, **flags)

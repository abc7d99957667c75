"""Pauses: while the service or an organization is paused, workers claim none of its jobs.

Jobs that run go on, and everything else works. A restored store starts paused: jobs may have run
after the backup was made.
"""

from typing import Literal

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.effective_settings import setting_changed_at
from agentjobs.organizations.organizations import find_organization, write_service_entry
from agentjobs.store.database import Database, Transaction

PAUSED_AT = "paused_at"
_RESTORED = "restored_at"
_SERVICE = "service"
# Conditions for the claim and for queue reasons; the second needs the organization's row as `o`.
SERVICE_IS_RUNNING = f"NOT EXISTS (SELECT 1 FROM effective_settings p WHERE p.name = '{PAUSED_AT}')"
ORGANIZATION_IS_RUNNING = "o.paused_at IS NULL"


class Pauses(msgspec.Struct, frozen=True):
    """Since when the service is paused, and which organizations are, by name."""

    service_since: int | None
    organizations: dict[str, int]


async def load_pauses(db: Database) -> Pauses:
    rows = await db.fetch_all(
        "SELECT name, paused_at FROM organizations WHERE paused_at IS NOT NULL ORDER BY name"
    )
    return Pauses(await service_paused_since(db), {row["name"]: row["paused_at"] for row in rows})


async def service_paused_since(db: Database) -> int | None:
    return await setting_changed_at(db, PAUSED_AT)


async def find_pause(
    db: Database, organization_id: str
) -> Literal["service", "organization"] | None:
    """What keeps the jobs of an organization from starting; None if they start."""
    row = await db.fetch_one(
        "SELECT o.paused_at, p.updated_at AS service_paused_at FROM organizations o"
        " LEFT JOIN effective_settings p ON p.name = :name WHERE o.id = :id",
        id=organization_id,
        name=PAUSED_AT,
    )
    if row is None or (row["service_paused_at"] is None and row["paused_at"] is None):
        return None
    return "organization" if row["service_paused_at"] is None else "service"


async def pause(db: Database, organization: str | None = None) -> bool:
    """The whole service if no organization is named. False if it was paused already.

    Nothing is claimed after it returns: it waits for claims in progress.
    """
    return await _set(db, organization, is_paused=True)


async def resume(db: Database, organization: str | None = None) -> bool:
    """False if it was not paused. An organization stays paused when the service is resumed."""
    return await _set(db, organization, is_paused=False)


@audit.in_transaction
async def _set(tx: Transaction, organization: str | None, *, is_paused: bool) -> bool:
    verb = "paused" if is_paused else "resumed"
    if organization is None:
        if not await _set_service(tx, is_paused=is_paused):
            return False
        await write_service_entry(tx, audit.entry(f"service.{verb}", _SERVICE))
    else:
        owner = await find_organization(tx, organization)
        if not await _set_organization(tx, owner.id, is_paused=is_paused):
            return False
        await audit.record(tx, owner.id, f"organization.{verb}", organization)
    # Waiting jobs may start, and pages show why they wait.
    tx.announce("jobs")
    return True


async def wait_for_claims(tx: Transaction) -> None:
    """After a change that forbids claims: wait for those that did not see it.

    Every claim updates its organizations, and then checks whether it is allowed.
    """
    if tx.engine == "postgresql":
        await tx.execute("LOCK TABLE organizations IN SHARE MODE")


def pause_statement(now: int) -> str:
    """Pauses the service in a store that is not in use yet."""
    return (
        "INSERT INTO effective_settings (name, value, updated_at)"
        f" VALUES ('{PAUSED_AT}', 'true', {now}) ON CONFLICT (name) DO NOTHING"
    )


async def _set_service(tx: Transaction, *, is_paused: bool) -> int:
    if not is_paused:
        return await tx.execute("DELETE FROM effective_settings WHERE name = :name", name=PAUSED_AT)
    changed = await tx.execute(pause_statement(await tx.clock_ms()))
    await wait_for_claims(tx)
    return changed


async def _set_organization(tx: Transaction, organization_id: str, *, is_paused: bool) -> int:
    """Claims lock the row that this changes."""
    return await tx.execute(
        "UPDATE organizations SET paused_at = CAST(:paused_at AS BIGINT) WHERE id = :id"
        " AND (paused_at IS NULL) <> (CAST(:paused_at AS BIGINT) IS NULL)",
        id=organization_id,
        paused_at=await tx.clock_ms() if is_paused else None,
    )


def restore_statements(now: int) -> tuple[str, ...]:
    """Remember when the store was restored. Links that work once may have been used since then."""
    remember = (
        "INSERT INTO effective_settings (name, value, updated_at)"
        f" VALUES ('{_RESTORED}', 'true', {now})"
        " ON CONFLICT (name) DO UPDATE SET updated_at = excluded.updated_at"
    )
    return remember, pause_statement(now), "DELETE FROM sign_in_links"


async def restored_at(db: Database) -> int | None:
    """None if the store was never restored."""
    return await setting_changed_at(db, _RESTORED)

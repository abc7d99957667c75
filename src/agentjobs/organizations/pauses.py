"""Pauses: while the service or an organization is paused, workers claim none of its jobs.

Jobs that run go on, and everything else works.
"""

from typing import Literal

import msgspec

from agentjobs.clock import now_ms
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION, find_organization
from agentjobs.store.database import Database, Transaction

_SETTING = "paused_at"
_SERVICE = "service"
# Conditions for the claim and for queue reasons; the second needs the organization's row as `o`.
SERVICE_IS_RUNNING = f"NOT EXISTS (SELECT 1 FROM effective_settings p WHERE p.name = '{_SETTING}')"
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
    row = await db.fetch_one(
        "SELECT updated_at FROM effective_settings WHERE name = :name", name=_SETTING
    )
    return None if row is None else row["updated_at"]


async def find_pause(
    db: Database, organization_id: str
) -> Literal["service", "organization"] | None:
    """What keeps the jobs of an organization from starting; None if they start."""
    row = await db.fetch_one(
        "SELECT o.paused_at, p.updated_at AS service_paused_at FROM organizations o"
        " LEFT JOIN effective_settings p ON p.name = :name WHERE o.id = :id",
        id=organization_id,
        name=_SETTING,
    )
    if row is None or (row["service_paused_at"] is None and row["paused_at"] is None):
        return None
    return "organization" if row["service_paused_at"] is None else "service"


async def pause(db: Database, organization: str | None = None) -> bool:
    """The whole service if no organization is named. False if it was paused already.

    A claim that is in progress may still succeed.
    """
    if organization is None:
        return await _set_for_service(db, now_ms(), audit.entry("service.paused", _SERVICE))
    entry = audit.entry("organization.paused", organization)
    return await _set_for_organization(db, organization, now_ms(), entry)


async def resume(db: Database, organization: str | None = None) -> bool:
    """False if it was not paused. An organization stays paused when the service is resumed."""
    if organization is None:
        return await _set_for_service(db, None, audit.entry("service.resumed", _SERVICE))
    entry = audit.entry("organization.resumed", organization)
    return await _set_for_organization(db, organization, None, entry)


async def _set_for_service(db: Database, paused_at: int | None, entry: audit.Entry) -> bool:
    # There is no log of the whole service; its operators read the one of `default`.
    default = await find_organization(db, DEFAULT_ORGANIZATION)
    return await db.transact(_set_service, default.id, paused_at, entry)


async def _set_for_organization(
    db: Database, name: str, paused_at: int | None, entry: audit.Entry
) -> bool:
    owner = await find_organization(db, name)
    return await db.transact(_set_organization, owner.id, paused_at, entry)


async def _set_service(
    tx: Transaction, default_id: str, paused_at: int | None, entry: audit.Entry
) -> bool:
    if paused_at is None:
        changed = await tx.execute(
            "DELETE FROM effective_settings WHERE name = :name", name=_SETTING
        )
    else:
        changed = await tx.execute(
            "INSERT INTO effective_settings (name, value, updated_at)"
            " VALUES (:name, 'true', :at) ON CONFLICT (name) DO NOTHING",
            name=_SETTING,
            at=paused_at,
        )
    return await _record(tx, default_id, changed, entry)


async def _set_organization(
    tx: Transaction, organization_id: str, paused_at: int | None, entry: audit.Entry
) -> bool:
    changed = await tx.execute(
        "UPDATE organizations SET paused_at = CAST(:paused_at AS BIGINT) WHERE id = :id"
        " AND (paused_at IS NULL) <> (CAST(:paused_at AS BIGINT) IS NULL)",
        id=organization_id,
        paused_at=paused_at,
    )
    return await _record(tx, organization_id, changed, entry)


async def _record(tx: Transaction, organization_id: str, changed: int, entry: audit.Entry) -> bool:
    if not changed:
        return False
    await audit.write(tx, organization_id, entry)
    # Waiting jobs may start, and pages show why they wait.
    tx.announce("jobs")
    return True

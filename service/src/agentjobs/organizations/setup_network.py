"""The hosts to which an organization limits the setup of its environments.

`environments` enforces them. The operator sets them, and they never add to those of the service.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.store.database import Database, Transaction


async def set_setup_network(db: Database, organization: str, hosts: tuple[str, ...] | None) -> None:
    """Expects valid host patterns."""
    owner = await find_organization(db, organization)
    stored = None if hosts is None else msgspec.json.encode(hosts).decode()
    entry = audit.entry("organization.setup_network_set", owner.name, hosts=hosts)
    await db.transact(_update, owner.id, stored, entry)


async def _update(
    tx: Transaction, organization_id: str, stored: str | None, entry: audit.Entry
) -> None:
    row = await tx.fetch_one(
        "SELECT setup_network FROM organizations WHERE id = :id /*postgresql FOR NO KEY UPDATE */",
        id=organization_id,
    )
    if row is None or row["setup_network"] == stored:
        return
    await tx.execute(
        "UPDATE organizations SET setup_network = :stored WHERE id = :id",
        id=organization_id,
        stored=stored,
    )
    await audit.write(tx, organization_id, entry)

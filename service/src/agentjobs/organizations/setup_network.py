"""The hosts to which an organization limits the setup of its environments.

`environments` enforces them. The operator sets them, and they never add to those of the service.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.store.database import Transaction


@audit.in_transaction
async def set_setup_network(
    tx: Transaction, organization: str, hosts: tuple[str, ...] | None
) -> None:
    """Expects valid host patterns."""
    owner = await find_organization(tx, organization)
    changed = await tx.execute(
        "UPDATE organizations SET setup_network = :stored WHERE id = :id"
        " AND COALESCE(setup_network, '') <> COALESCE(CAST(:stored AS TEXT), '')",
        id=owner.id,
        stored=None if hosts is None else msgspec.json.encode(hosts).decode(),
    )
    if not changed:
        return
    await audit.record(tx, owner.id, "organization.setup_network_set", owner.name, hosts=hosts)

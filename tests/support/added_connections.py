"""Connections that are stored without asking their platform."""

from agentjobs.connections.connections import (
    AddedConnection,
    NewConnection,
    draft_from,
    store_connection,
)
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database


async def add_connection(
    db: Database, keys: SealingKeys, organization: str, new: NewConnection
) -> AddedConnection:
    owner = await find_organization(db, organization)
    return await store_connection(db, keys, draft_from(owner, new), new.credential)

"""Loads what setup may use: hosts, secrets and credentials of a repository."""

from agentjobs.environments.secrets import (
    open_proxy_secrets,
    open_registry_credentials,
    open_setup_secrets,
)
from agentjobs.environments.setup_network import setup_hosts
from agentjobs.organizations.organizations import decode_hosts
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_runtime.settings import Settings


async def load_setup_access(
    db: Database, keys: SealingKeys, settings: Settings, organization_id: str, repo_id: str
) -> SetupAccess:
    """The access for a commit that is trusted. Raises DecryptionFailed."""
    row = await db.fetch_one(
        "SELECT setup_network FROM organizations WHERE id = :id", id=organization_id
    )
    own_hosts = None if row is None else decode_hosts(row["setup_network"])
    return SetupAccess(
        network=setup_hosts(settings, own_hosts),
        secrets=await open_setup_secrets(db, keys, repo_id),
        brokered=await open_proxy_secrets(db, keys, repo_id),
        registries=await open_registry_credentials(db, keys, organization_id),
    )

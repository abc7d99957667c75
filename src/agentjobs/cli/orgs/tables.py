"""Every table with rows of organizations, collected from the packages that own them."""

from agentjobs.advisories import tenant_tables as advisories
from agentjobs.connections import tenant_tables as connections
from agentjobs.environments import tenant_tables as environments
from agentjobs.fleet import tenant_tables as fleet
from agentjobs.gateway import tenant_tables as gateway
from agentjobs.inventory import tenant_tables as inventory
from agentjobs.jobs import tenant_tables as jobs
from agentjobs.organizations import tenant_tables as organizations
from agentjobs.platform_sync import tenant_tables as platform_sync
from agentjobs.pulls import tenant_tables as pulls
from agentjobs.repos import tenant_tables as repos
from agentjobs.store import tenant_tables as store
from agentjobs.store.tenant_rows import TenantTables
from agentjobs.tickets import tenant_tables as tickets
from agentjobs.webhooks import tenant_tables as webhooks

# Upper packages first: their rows reference those of lower ones.
OWNERS = (
    platform_sync,
    jobs,
    tickets,
    advisories,
    inventory,
    pulls,
    connections,
    repos,
    environments,
    webhooks,
    gateway,
    fleet,
    organizations,
    store,
)


def tenant_tables() -> TenantTables:
    return TenantTables(table for owner in OWNERS for table in owner.TENANT_TABLES)

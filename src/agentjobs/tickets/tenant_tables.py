"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (TenantTable(name="trackers", unexported=("sealed",)),)
SHARED_TABLES: tuple[str, ...] = ()

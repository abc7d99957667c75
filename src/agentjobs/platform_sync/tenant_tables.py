"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(name="forge_hints", parent="forge_connections", column="connection_id"),
)
SHARED_TABLES: tuple[str, ...] = ()

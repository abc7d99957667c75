"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(name="forge_connections", unexported=("sealed", "hook_sealed", "signing_sealed")),
)
SHARED_TABLES: tuple[str, ...] = ()

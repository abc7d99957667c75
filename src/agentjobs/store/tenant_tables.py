"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

# A process that died may have left the lease of a repository; the others are roles.
TENANT_TABLES = (
    TenantTable(
        name="leases",
        key=("name",),
        where="name IN (SELECT 'repository:' || r.id FROM repos r"
        " WHERE r.organization_id IN (SELECT value FROM each(:parents)))",
    ),
)
SHARED_TABLES: tuple[str, ...] = ()

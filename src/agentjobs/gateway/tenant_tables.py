"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(name="job_spending", key=("job_id",), parent="jobs", column="job_id"),
    TenantTable(name="daily_spending", key=("organization_id", "day")),
)
SHARED_TABLES: tuple[str, ...] = ()

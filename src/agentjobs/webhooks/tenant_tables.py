"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(
        name="delivery_attempts",
        key=("delivery_id", "id"),
        parent="deliveries",
        column="delivery_id",
    ),
    TenantTable(name="events", key=("job_id", "sequence"), parent="jobs", column="job_id"),
    TenantTable(name="event_positions", key=("organization_id",)),
    TenantTable(name="deliveries", rows_per_page=1_000),
    TenantTable(name="webhook_endpoints", unexported=("sealed", "pending_sealed")),
)
SHARED_TABLES: tuple[str, ...] = ()

"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    # A chunk is up to 64 KiB.
    TenantTable(
        name="job_logs",
        key=("job_id", "sequence"),
        parent="jobs",
        column="job_id",
        rows_per_page=20,
    ),
    TenantTable(name="idempotency_keys", key=("organization_id", "key")),
    TenantTable(
        name="auto_triggers",
        key=("repo_id", "manifest", "ecosystem", "name", "fix_version"),
        parent="repos",
        column="repo_id",
    ),
    TenantTable(name="jobs", unexported=("credential_hash",)),
)
SHARED_TABLES = ("workers",)

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
    TenantTable(
        name="job_steps",
        key=("job_id", "sequence"),
        parent="jobs",
        column="job_id",
        rows_per_page=200,
    ),
    # A bundle is up to 32 MiB.
    TenantTable(name="kept_work", key=("job_id",), parent="jobs", column="job_id", rows_per_page=1),
    # An artifact is up to 10 MiB.
    TenantTable(
        name="job_artifacts",
        key=("job_id", "name"),
        parent="jobs",
        column="job_id",
        rows_per_page=1,
    ),
    TenantTable(
        name="job_diffs", key=("job_id",), parent="jobs", column="job_id", rows_per_page=10
    ),
    TenantTable(
        name="job_labels",
        key=("organization_id", "key", "value", "job_id"),
        parent="jobs",
        column="job_id",
    ),
    TenantTable(
        name="job_reports", key=("job_id",), parent="jobs", column="job_id", rows_per_page=20
    ),
    TenantTable(name="lost_claims", key=("job_id", "fence"), parent="jobs", column="job_id"),
    TenantTable(
        name="platform_outages",
        key=("key",),
        where="(key IN (SELECT c.id FROM forge_connections c"
        "  WHERE c.organization_id IN (SELECT value FROM each(:parents)))"
        " OR key IN (SELECT r.id FROM repos r"
        "  WHERE r.organization_id IN (SELECT value FROM each(:parents)))"
        " OR key IN (SELECT j.waits_for FROM jobs j"
        "  WHERE j.organization_id IN (SELECT value FROM each(:parents))))",
    ),
    TenantTable(name="environment_holds", key=("key",), parent="repos", column="repo_id"),
    TenantTable(name="idempotency_keys", key=("organization_id", "key")),
    TenantTable(
        name="auto_triggers",
        key=("repo_id", "manifest", "ecosystem", "name", "fix_version"),
        parent="repos",
        column="repo_id",
    ),
    TenantTable(
        name="proposed_fixes",
        key=("repo_id", "manifest", "ecosystem", "name", "fix_version"),
        parent="repos",
        column="repo_id",
    ),
    TenantTable(name="jobs", unexported=("credential_hash",)),
)
SHARED_TABLES = ("workers",)

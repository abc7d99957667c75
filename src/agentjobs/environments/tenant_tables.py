"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    # A log is up to 256 KiB.
    TenantTable(name="environment_builds", rows_per_page=20, unexported=("credential_hash",)),
    TenantTable(
        name="environment_secrets",
        key=("organization_id", "repo_id", "name"),
        unexported=("sealed",),
    ),
    TenantTable(name="repo_environments", key=("repo_id",)),
)
SHARED_TABLES: tuple[str, ...] = ()

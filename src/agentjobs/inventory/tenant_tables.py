"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(name="dependencies", key=("repo_id", "position"), parent="repos", column="repo_id"),
    # A graph may have many megabytes.
    TenantTable(
        name="repo_graphs", key=("repo_id",), parent="repos", column="repo_id", rows_per_page=1
    ),
)
SHARED_TABLES: tuple[str, ...] = ()

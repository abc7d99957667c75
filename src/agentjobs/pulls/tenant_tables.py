"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(
        name="finished_branches", key=("repo_id", "branch"), parent="repos", column="repo_id"
    ),
    TenantTable(name="pull_comments", parent="repos", column="repo_id"),
    TenantTable(name="pull_statuses", key=("repo_id", "number"), parent="repos", column="repo_id"),
    TenantTable(
        name="pull_views",
        key=("repo_id", "number", "user_id", "file_key"),
        parent="repos",
        column="repo_id",
    ),
    TenantTable(name="pulls", key=("repo_id", "number"), parent="repos", column="repo_id"),
)
SHARED_TABLES: tuple[str, ...] = ()

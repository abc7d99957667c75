"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(
        name="repo_hooks",
        key=("repo_id",),
        parent="repos",
        column="repo_id",
        unexported=("sealed",),
    ),
    TenantTable(name="repo_imports"),
    TenantTable(name="repos"),
)
SHARED_TABLES: tuple[str, ...] = ()

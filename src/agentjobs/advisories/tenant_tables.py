"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (
    TenantTable(
        name="finding_decisions",
        key=("repo_id", "ecosystem", "name", "advisory_id"),
        parent="repos",
        column="repo_id",
    ),
    TenantTable(name="findings"),
)
# Known vulnerabilities are the same for everyone.
SHARED_TABLES = (
    *("advisories", "advisory_names", "advisory_packages", "advisory_texts"),
    "advisory_feeds",
)

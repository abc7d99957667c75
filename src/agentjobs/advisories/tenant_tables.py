"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES = (TenantTable(name="findings"),)
# Known vulnerabilities are the same for everyone.
SHARED_TABLES = ("advisories", "advisory_names", "advisory_packages", "advisory_feeds")

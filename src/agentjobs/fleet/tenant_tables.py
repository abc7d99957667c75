"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import TenantTable

TENANT_TABLES: tuple[TenantTable, ...] = ()
SHARED_TABLES = ("processes",)

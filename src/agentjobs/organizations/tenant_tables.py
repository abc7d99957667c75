"""The tables of this package with rows of organizations."""

from agentjobs.store.tenant_rows import ROOT, TenantTable

_IS_MEMBER = (
    "IN (SELECT m.user_id FROM memberships m"
    " WHERE m.organization_id IN (SELECT value FROM each(:parents)))"
)

TENANT_TABLES = (
    # Users may be members of other organizations: `removal` decides who is deleted.
    TenantTable(
        name="sign_in_links", key=("hash",), where=f"user_id {_IS_MEMBER}", unexported=("hash",)
    ),
    TenantTable(name="users", where=f"id {_IS_MEMBER}", unexported=("password_hash",)),
    TenantTable(name="sessions", key=("hash",), unexported=("hash",)),
    TenantTable(name="memberships", key=("organization_id", "user_id")),
    TenantTable(name="invitations", unexported=("hash",)),
    TenantTable(name="api_keys", unexported=("hash",)),
    TenantTable(name="secrets", key=("organization_id", "name"), unexported=("sealed",)),
    TenantTable(name="audit_log"),
    TenantTable(name=ROOT, column="id"),
)
# Settings of the service, and hashes that no longer tell whose they are.
SHARED_TABLES = ("effective_settings", "sign_in_failures", "used_form_tokens")

"""Every table with rows of organizations, for `orgs export` and `orgs delete`.

In the order of deletion: a row comes before the row that it references, or is found through. A
table that is in neither list fails a test.
"""

from functools import partial

from agentjobs.store.tenant_rows import ROOT, TenantTable, TenantTables

_job_table = partial(TenantTable, parent="jobs", column="job_id")
_repo_table = partial(TenantTable, parent="repos", column="repo_id")
_FIX_KEY = ("repo_id", "manifest", "ecosystem", "name", "fix_version")
_IN_ORGANIZATION = "organization_id IN (SELECT value FROM each(:parents))"
_IS_MEMBER = f"IN (SELECT user_id FROM memberships WHERE {_IN_ORGANIZATION})"

_TENANT_TABLES = (
    # Rows of connections, jobs, repositories, deliveries and members.
    TenantTable(name="platform_hints", parent="platform_connections", column="connection_id"),
    # Pages of few rows where a row is large: a chunk of a log is up to 64 KiB, kept work 32 MiB,
    # an artifact 10 MiB, the log of a build 256 KiB, a graph many megabytes.
    _job_table(name="job_logs", key=("job_id", "sequence"), rows_per_page=20),
    _job_table(name="job_steps", key=("job_id", "sequence")),
    _job_table(name="kept_work", key=("job_id",), rows_per_page=1),
    _job_table(name="job_artifacts", key=("job_id", "name"), rows_per_page=1),
    _job_table(name="job_diffs", key=("job_id",), rows_per_page=10),
    _job_table(name="job_labels", key=("organization_id", "key", "value", "job_id")),
    _job_table(name="job_reports", key=("job_id",), rows_per_page=20),
    _job_table(name="lost_claims", key=("job_id", "fence")),
    TenantTable(
        name="platform_outages",
        key=("key",),
        where=f"(key IN (SELECT id FROM platform_connections WHERE {_IN_ORGANIZATION})"
        f" OR key IN (SELECT id FROM repos WHERE {_IN_ORGANIZATION})"
        f" OR key IN (SELECT waits_for FROM job_queue WHERE {_IN_ORGANIZATION}))",
    ),
    _repo_table(name="environment_holds", key=("key",)),
    _repo_table(name="auto_triggers", key=_FIX_KEY),
    _repo_table(name="proposed_fixes", key=_FIX_KEY),
    _repo_table(name="finding_decisions", key=("repo_id", "ecosystem", "name", "advisory_id")),
    _repo_table(name="dependencies", key=("repo_id", "position")),
    _repo_table(name="repo_graphs", key=("repo_id",), rows_per_page=1),
    _repo_table(name="finished_branches", key=("repo_id", "branch")),
    _repo_table(name="pull_comments"),
    _repo_table(name="pull_statuses", key=("repo_id", "number")),
    _repo_table(name="pull_views", key=("repo_id", "number", "user_id", "file_key")),
    _repo_table(name="pulls", key=("repo_id", "number")),
    _repo_table(name="pull_numbers", key=("repo_id",)),
    _repo_table(name="repo_index", key=("repo_id",)),
    _repo_table(name="repo_sync", key=("repo_id",)),
    _repo_table(name="index_queue", key=("repo_id",)),
    _repo_table(name="scan_queue", key=("repo_id",)),
    _repo_table(name="sync_queue", key=("repo_id",)),
    _repo_table(name="repo_hooks", key=("repo_id",), unexported=("sealed",)),
    TenantTable(
        name="delivery_attempts",
        key=("delivery_id", "id"),
        parent="deliveries",
        column="delivery_id",
    ),
    _job_table(name="events", key=("job_id", "sequence")),
    _job_table(name="job_spending", key=("job_id",)),
    # Users may be members of other organizations: `removal` decides who is deleted.
    TenantTable(
        name="sign_in_links", key=("hash",), where=f"user_id {_IS_MEMBER}", unexported=("hash",)
    ),
    TenantTable(name="users", where=f"id {_IS_MEMBER}", unexported=("password_hash",)),
    # A process that died may have left the lease of a repository; the others are roles.
    TenantTable(
        name="leases",
        key=("name",),
        where=f"name IN (SELECT 'repository:' || id FROM repos WHERE {_IN_ORGANIZATION})",
    ),
    # Rows of the organization itself.
    TenantTable(name="idempotency_keys", key=("organization_id", "key")),
    TenantTable(name="job_queue", key=("job_id",), unexported=("credential_hash",)),
    TenantTable(name="jobs"),
    TenantTable(name="trackers", unexported=("sealed",)),
    TenantTable(name="findings"),
    TenantTable(
        name="platform_connections", unexported=("sealed", "hook_sealed", "signing_sealed")
    ),
    TenantTable(name="repo_imports"),
    TenantTable(name="repos"),
    TenantTable(name="environment_builds", rows_per_page=20, unexported=("credential_hash",)),
    TenantTable(
        name="environment_secrets",
        key=("organization_id", "repo_id", "name"),
        unexported=("sealed",),
    ),
    TenantTable(name="repo_environments", key=("repo_id",)),
    TenantTable(name="event_positions", key=("organization_id",)),
    TenantTable(name="deliveries", rows_per_page=1_000),
    TenantTable(name="webhook_endpoints", unexported=("sealed", "pending_sealed")),
    TenantTable(name="daily_spending", key=("organization_id", "day")),
    TenantTable(name="sessions", key=("hash",), unexported=("hash",)),
    TenantTable(name="memberships", key=("organization_id", "user_id")),
    TenantTable(name="invitations", unexported=("hash",)),
    TenantTable(name="api_keys", unexported=("hash",)),
    TenantTable(name="secrets", key=("organization_id", "name"), unexported=("sealed",)),
    TenantTable(name="audit_log"),
    TenantTable(name="claimed_organizations", key=("organization_id",)),
    TenantTable(name=ROOT, column="id"),
)
SHARED_TABLES = (
    # Known vulnerabilities are the same for everyone.
    *("advisories", "advisory_names", "advisory_packages", "advisory_texts", "advisory_feeds"),
    # Settings of the service, and hashes that no longer tell whose they are.
    *("effective_settings", "sign_in_failures", "used_form_tokens"),
    *("processes", "workers"),
)


def tenant_tables() -> TenantTables:
    return TenantTables(_TENANT_TABLES)

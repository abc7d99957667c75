"""The statements of a claim: which organizations wait, their locks, and their next jobs."""

import msgspec

from agentjobs.jobs.queue.claim import PUBLISHER, is_on_worker
from agentjobs.jobs.queue.environment_holds import waits_for_environment
from agentjobs.jobs.queue.platform_outages import has_outage, is_held
from agentjobs.organizations.pauses import (
    ORGANIZATION_IS_RUNNING,
    PAUSED_AT,
    SERVICE_IS_RUNNING,
)
from agentjobs.store.array_literal import array
from agentjobs.store.batch_statement import rows_source
from agentjobs.store.database_clock import DATABASE_NOW

_JOB_COLUMNS = (
    *("id", "organization_id", "repo_id", "repo", "agent", "ticket_id", "config_override"),
    *("status", "attempt", "started_at", "base_commit", "branch", "verification", "follows"),
    *("cause", "created_at", "kept_at", "created_by", "queued_at", "traceparent", "phases"),
)
_QUEUE_COLUMNS = ("fence", "credential_hash", "waits_for", "environment_key")
_IS_WAITING = "lease_owner IS NULL"
# Without the hint SQLite reads all jobs of the organization.
_LEASED_INDEX = "/*sqlite INDEXED BY job_queue_leased */"
_MAY_CLAIM = (
    f"{SERVICE_IS_RUNNING} AND NOT EXISTS (SELECT 1 FROM workers d"
    " WHERE d.id = :worker_id AND d.drain_requested_at IS NOT NULL)"
)
# At most one claim at a time reads the jobs of an agent with a limit.
LOCK_AGENT = (
    "/*sqlite SELECT 1 AS locked */"
    "/*postgresql SELECT pg_try_advisory_xact_lock(hashtextextended(CAST(:name AS TEXT), 0))"
    " AS locked */"
)
ACTIVE_OF_AGENT = (
    f"SELECT COUNT(*) AS active FROM job_queue a WHERE {is_on_worker('a')} AND a.agent = :agent"
)
# One claim at a time per organization: two workers could exceed its limit together. It takes the
# first `count` that no other claim has locked. The number of active jobs is part of the next
# statement, because this one reads a snapshot from before the lock.
#
# Nobody waits until a claim is on disk: whatever its worker stores is written after it. A server
# that crashes before may forget it, so its fence is never used again (see `choose_and_claim`).
LOCK = (
    "WITH /*postgresql not_durable AS MATERIALIZED"
    " (SELECT set_config('synchronous_commit', 'off', TRUE)), */ free AS MATERIALIZED (SELECT o.id"
    " FROM (SELECT value, row_number() OVER () AS number FROM each(:organizations)) AS candidate"
    f" JOIN organizations o ON o.id = candidate.value WHERE {ORGANIZATION_IS_RUNNING}"
    " /*postgresql ORDER BY candidate.number"
    " LIMIT :count FOR NO KEY UPDATE OF o SKIP LOCKED */)"
    " INSERT INTO claimed_organizations (organization_id, last_claimed_at)"
    f" SELECT id, {DATABASE_NOW} FROM free /*postgresql CROSS JOIN not_durable */ WHERE TRUE"
    " ON CONFLICT (organization_id)"
    " DO UPDATE SET last_claimed_at = excluded.last_claimed_at RETURNING organization_id AS id,"
    " last_claimed_at + CAST(:lease_ms AS BIGINT) AS lease_expires_at"
)
_LACKS_TAG = (
    "EXISTS (SELECT 1 FROM /*sqlite json_each(r.required_tags) AS tag */"
    "/*postgresql json_array_elements_text(CAST(r.required_tags AS json)) AS tag(value) */"
    " WHERE tag.value NOT IN (SELECT value FROM each(:tags)))"
)
# Repositories whose jobs this claim leaves alone. Many jobs at once could exceed the limit of one.
_HAS_LIMIT = "r.max_concurrent_jobs IS NOT NULL"
# The subquery hides the value from the planner, as in `statements.render`.
_ONE_BY_ONE = "(SELECT CAST(:one_by_one AS BOOLEAN))"
_IS_AT_LIMIT = (
    f"r.max_concurrent_jobs <= (SELECT COUNT(*) FROM job_queue b {_LEASED_INDEX}"
    f" WHERE {is_on_worker('b')}"
    " AND b.organization_id = r.organization_id AND b.repo_id = r.id)"
)
CLAIM = (
    "UPDATE job_queue SET lease_owner = :worker_id, lease_expires_at = :lease_expires_at,"
    " fence = fence + 1, credential_hash = :credential_hash WHERE job_id = :job_id"
)

# What an organization may start, and the PostgreSQL types.
SHARE = {"id": "text", "max_jobs": "bigint", "wanted": "bigint"}


class Statements(msgspec.Struct, frozen=True):
    """`choose_and_claim` does all three on PostgreSQL, `choose`, CLAIM and `read` on SQLite."""

    organizations: str
    choose: str
    read: str
    choose_and_claim: str


def _statements(*, with_outages: bool) -> Statements:
    """`with_outages`: while there are outages of platforms or jobs that wait for environments.
    Otherwise their conditions would cost half a millisecond on PostgreSQL."""
    has_outage_ = has_outage("q") if with_outages else "FALSE"
    next_job = _next_job(with_outages=with_outages)
    columns = ", ".join(
        (
            *(f"j.{name}" for name in _JOB_COLUMNS),
            *(f"q.{name}" for name in _QUEUE_COLUMNS),
            "o.name AS organization, o.daily_budget_nanousd, o.job_budget_nanousd",
            "r.platform, r.connection_id, r.external_id, r.default_branch, r.disconnected_at",
            f"r.head_commit AS repo_head, r.lifted_paths, {has_outage_} AS has_outage",
        )
    )
    tables = "jobs j, organizations o, repos r"
    joined = "j.id = q.job_id AND o.id = q.organization_id AND r.id = q.repo_id"
    return Statements(
        organizations=_organizations(with_outages=with_outages),
        choose=next_job.format(
            organization_id=":organization_id",
            count=f"MAX(0, MIN(:count, :limit - {_active(':organization_id')}))",
        ),
        read=f"SELECT {columns} FROM job_queue q, {tables} WHERE {joined}"
        " AND q.job_id IN (SELECT value FROM each(:ids))",
        # Any credential may go to any job.
        choose_and_claim=f"WITH share AS (SELECT * FROM {rows_source(SHARE)}),"
        " chosen AS (SELECT next.job_id FROM share, LATERAL ("
        + next_job.format(
            organization_id="share.id",
            count=f"GREATEST(0, LEAST(share.wanted, share.max_jobs - {_active('share.id')}))",
        )
        + ") next),"
        " numbered AS (SELECT job_id, row_number() OVER () AS number FROM chosen),"
        f" credential AS (SELECT * FROM unnest((SELECT {array('hashes', 'bytea')}))"
        "  WITH ORDINALITY AS v(hash, number))"
        " UPDATE job_queue q SET lease_owner = :worker_id, lease_expires_at = :lease_expires_at,"
        f" fence = GREATEST(fence + 1, {DATABASE_NOW}), credential_hash = c.hash"
        f" FROM numbered n JOIN credential c ON c.number = n.number, {tables}"
        f" WHERE q.job_id = n.job_id AND {joined} RETURNING {columns}",
    )


def _active(organization_id: str) -> str:
    return (
        f"(SELECT COUNT(*) FROM job_queue a {_LEASED_INDEX}"
        f" WHERE {is_on_worker('a')} AND a.organization_id = {organization_id})"
    )


def _organizations(*, with_outages: bool) -> str:
    """The organizations with jobs that this worker can run.

    For each agent, the statement skips through an index from one organization to the next: neither
    the length of a queue nor jobs for other workers matter. Beyond the first `window`
    organizations, the next call continues. There are none while the service is paused or the worker
    drains.
    """
    is_waiting = f"q.{_IS_WAITING}{_is_free('q') if with_outages else ''}"
    return f"""
WITH RECURSIVE waiting(agent, organization_id, step) AS (
  SELECT each.value, (SELECT MIN(q.organization_id) FROM job_queue q WHERE {is_waiting}
    AND q.agent = each.value AND q.organization_id > :after), 1
  FROM each(:agents)
  UNION ALL
  SELECT w.agent, (SELECT MIN(q.organization_id) FROM job_queue q WHERE {is_waiting}
    AND q.agent = w.agent AND q.organization_id > w.organization_id), w.step + 1
  FROM waiting w WHERE w.organization_id IS NOT NULL AND w.step < :window
)
SELECT o.id, o.plan, o.paused_at,
  (SELECT c.last_claimed_at FROM claimed_organizations c WHERE c.organization_id = o.id)
    AS last_claimed_at,
  {_active("o.id")} AS active,
  EXISTS (SELECT 1 FROM platform_outages) OR EXISTS (SELECT 1 FROM environment_holds)
    AS has_outages,
  EXISTS (SELECT 1 FROM repos WHERE max_concurrent_jobs IS NOT NULL) AS repos_have_limits
FROM organizations o WHERE o.id IN (SELECT organization_id FROM waiting) AND {_MAY_CLAIM}
"""


def _next_job(*, with_outages: bool) -> str:
    # `_MAY_CLAIM` is looked at again, because the organizations were read before the lock.
    return (
        f"SELECT job_id FROM job_queue w WHERE {_IS_WAITING}"
        " AND organization_id = {organization_id}"
        f" AND {_MAY_CLAIM}"
        f" AND agent IN (SELECT value FROM each(:agents)){_is_free('w') if with_outages else ''}"
        " AND NOT EXISTS (SELECT 1 FROM repos r WHERE r.id = w.repo_id"
        f" AND (CASE WHEN {_ONE_BY_ONE} THEN {_IS_AT_LIMIT} ELSE {_HAS_LIMIT} END"
        f" OR (r.required_tags <> '[]' AND {_LACKS_TAG})))"
        " ORDER BY queue_order, job_id"
        " LIMIT {count} /*postgresql FOR UPDATE SKIP LOCKED */"
    )


def _is_free(job: str) -> str:
    return f" AND NOT {is_held(job)} AND NOT {waits_for_environment(job)}"


# Jobs with finished work that no process publishes now.
FREE_TO_PUBLISH = (
    f"q.lease_owner = '{PUBLISHER}'"
    f" AND (q.lease_expires_at IS NULL OR q.lease_expires_at < {DATABASE_NOW})"
)
# Without those that wait for their platform. What was kept before a pause waits for its end.
TO_PUBLISH = (
    f"SELECT q.job_id FROM job_queue q JOIN jobs j ON j.id = q.job_id WHERE {FREE_TO_PUBLISH}"
    f" AND NOT {is_held('q')}"
    " AND NOT EXISTS (SELECT 1 FROM effective_settings p"
    f"  WHERE p.name = '{PAUSED_AT}' AND p.updated_at > j.kept_at)"
    " ORDER BY j.kept_at, q.job_id LIMIT :count /*postgresql FOR UPDATE OF q SKIP LOCKED */"
)

DURING_OUTAGES = _statements(with_outages=True)
WITHOUT_OUTAGES = _statements(with_outages=False)

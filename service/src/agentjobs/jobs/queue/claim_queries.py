"""The statements of a claim: which organizations wait, their locks, and their next jobs."""

import msgspec

from agentjobs.jobs.queue.environment_holds import waits_for_environment
from agentjobs.jobs.queue.platform_outages import has_outage, is_held
from agentjobs.organizations.pauses import ORGANIZATION_IS_RUNNING, SERVICE_IS_RUNNING
from agentjobs.store.array_literal import array
from agentjobs.store.database_clock import DATABASE_NOW


def _is_held(job: str) -> str:
    return f"({is_held(job)} OR {waits_for_environment(job)})"


_WAITING = "status = 'queued' AND lease_owner IS NULL"
# Without the hint SQLite reads all jobs of the organization.
_LEASED_INDEX = "/*sqlite INDEXED BY jobs_leased */"
_MAY_CLAIM = (
    f"{SERVICE_IS_RUNNING} AND NOT EXISTS (SELECT 1 FROM workers d"
    " WHERE d.id = :worker_id AND d.drain_requested_at IS NOT NULL)"
)
# The organizations with jobs that this worker can run. For each agent, the statement skips through
# an index from one organization to the next: neither the length of a queue nor jobs for other
# workers matter. Beyond the first `window` organizations, the next call continues. There are none
# while the service is paused or the worker drains.
_ORGANIZATIONS = f"""
WITH RECURSIVE waiting(agent, organization_id, step) AS (
  SELECT each.value, (SELECT MIN(j.organization_id) FROM jobs j WHERE {_WAITING}
    AND j.agent = each.value AND j.organization_id > :after AND NOT {_is_held("j")}), 1
  FROM each(:agents)
  UNION ALL
  SELECT w.agent, (SELECT MIN(j.organization_id) FROM jobs j WHERE {_WAITING}
    AND j.agent = w.agent AND j.organization_id > w.organization_id
    AND NOT {_is_held("j")}), w.step + 1
  FROM waiting w WHERE w.organization_id IS NOT NULL AND w.step < :window
)
SELECT o.id, o.plan, o.last_claimed_at, o.paused_at,
  (SELECT COUNT(*) FROM jobs a {_LEASED_INDEX} WHERE a.lease_owner IS NOT NULL
    AND a.organization_id = o.id) AS active,
  EXISTS (SELECT 1 FROM platform_outages) OR EXISTS (SELECT 1 FROM environment_holds)
    AS has_outages,
  EXISTS (SELECT 1 FROM repos WHERE max_concurrent_jobs IS NOT NULL) AS repos_have_limits
FROM organizations o WHERE o.id IN (SELECT organization_id FROM waiting) AND {_MAY_CLAIM}
"""
# At most one claim at a time looks at the jobs of an agent with a limit.
LOCK_AGENT = (
    "/*sqlite SELECT 1 AS locked */"
    "/*postgresql SELECT pg_try_advisory_xact_lock(hashtextextended(CAST(:name AS TEXT), 0))"
    " AS locked */"
)
ACTIVE_OF_AGENT = (
    "SELECT COUNT(*) AS active FROM jobs WHERE lease_owner IS NOT NULL AND agent = :agent"
)
# One claim at a time per organization: two workers could exceed its limit together. It takes the
# first `count` that no other claim has locked. The number of active jobs is part of the next
# statement, because this one reads a snapshot from before the lock.
LOCK = (
    "WITH free AS MATERIALIZED (SELECT o.id"
    " FROM (SELECT value, row_number() OVER () AS number FROM each(:organizations)) AS candidate"
    f" JOIN organizations o ON o.id = candidate.value WHERE {ORGANIZATION_IS_RUNNING}"
    " /*postgresql ORDER BY candidate.number"
    " LIMIT :count FOR NO KEY UPDATE OF o SKIP LOCKED */)"
    f" UPDATE organizations SET last_claimed_at = {DATABASE_NOW}"
    " WHERE id IN (SELECT id FROM free)"
    " RETURNING id, last_claimed_at + CAST(:lease_ms AS BIGINT) AS lease_expires_at"
)
_LACKS_TAG = (
    "EXISTS (SELECT 1 FROM /*sqlite json_each(r.required_tags) AS tag */"
    "/*postgresql json_array_elements_text(CAST(r.required_tags AS json)) AS tag(value) */"
    " WHERE tag.value NOT IN (SELECT value FROM each(:tags)))"
)
# Repositories whose jobs this claim leaves alone. Many jobs at once could exceed the limit of one.
_HAS_LIMIT = "r.max_concurrent_jobs IS NOT NULL"
_IS_AT_LIMIT = (
    f"r.max_concurrent_jobs <= (SELECT COUNT(*) FROM jobs b {_LEASED_INDEX}"
    " WHERE b.lease_owner IS NOT NULL"
    " AND b.organization_id = r.organization_id AND b.repo_id = r.id)"
)
# `_MAY_CLAIM` is looked at again, because `_ORGANIZATIONS` was read before the lock.
_NEXT = (
    f"SELECT id FROM jobs WHERE organization_id = {{organization_id}} AND {_WAITING}"
    f" AND {_MAY_CLAIM}"
    f" AND agent IN (SELECT value FROM each(:agents)) AND NOT {_is_held('jobs')}"
    " AND NOT EXISTS (SELECT 1 FROM repos r WHERE r.id = jobs.repo_id"
    f" AND (CASE WHEN :one_by_one THEN {_IS_AT_LIMIT} ELSE {_HAS_LIMIT} END"
    f" OR (r.required_tags <> '[]' AND {_LACKS_TAG})))"
    " ORDER BY queue_order, id"
    " LIMIT {count} /*postgresql FOR UPDATE SKIP LOCKED */"
)
_ACTIVE = (
    f"(SELECT COUNT(*) FROM jobs a {_LEASED_INDEX} WHERE a.lease_owner IS NOT NULL"
    " AND a.organization_id = {organization_id})"
)
_CHOOSE = _NEXT.format(
    organization_id=":organization_id",
    count=f"MAX(0, MIN(:count, :limit - {_ACTIVE.format(organization_id=':organization_id')}))",
)
CLAIM = (
    "UPDATE jobs SET lease_owner = :worker_id, lease_expires_at = :lease_expires_at,"
    " fence = fence + 1, credential_hash = :credential_hash WHERE id = :job_id"
)
_CLAIMED_COLUMNS = (
    "j.*, o.name AS organization, o.daily_budget_nanousd, o.job_budget_nanousd,"
    " r.platform, r.connection_id, r.external_id, r.default_branch, r.disconnected_at,"
    " r.head_commit AS repo_head, r.lifted_paths,"
    f" {has_outage('j')} AS has_outage"
)
_READ = (
    f"SELECT {_CLAIMED_COLUMNS}"
    " FROM jobs j JOIN organizations o ON o.id = j.organization_id JOIN repos r ON r.id = j.repo_id"
    " WHERE j.id IN (SELECT value FROM each(:ids))"
)
# The three of them in one statement. Any credential may go to any job.
_CHOOSE_AND_CLAIM = (
    f"WITH share AS (SELECT * FROM unnest({array('organizations', 'text')},"
    f" {array('limits', 'bigint')}, {array('counts', 'bigint')}) AS v(id, max_jobs, wanted)),"
    " chosen AS (SELECT next.id FROM share, LATERAL ("
    + _NEXT.format(
        organization_id="share.id",
        count="GREATEST(0, LEAST(share.wanted, share.max_jobs - "
        f"{_ACTIVE.format(organization_id='share.id')}))",
    )
    + ") next),"
    " numbered AS (SELECT id, row_number() OVER () AS number FROM chosen),"
    f" credential AS (SELECT * FROM unnest({array('hashes', 'bytea')}) WITH ORDINALITY"
    "  AS v(hash, number))"
    " UPDATE jobs j SET lease_owner = :worker_id, lease_expires_at = :lease_expires_at,"
    " fence = fence + 1, credential_hash = c.hash"
    " FROM numbered n JOIN credential c ON c.number = n.number, organizations o, repos r"
    " WHERE j.id = n.id AND o.id = j.organization_id AND r.id = j.repo_id"
    f" RETURNING {_CLAIMED_COLUMNS}"
)


class Statements(msgspec.Struct, frozen=True):
    """Those that differ while there are outages of platforms or jobs that wait for environments."""

    organizations: str
    choose: str
    read: str
    choose_and_claim: str


def _without_outages(sql: str) -> str:
    """The conditions cost half a millisecond on PostgreSQL."""
    for job in ("j", "jobs"):
        sql = sql.replace(f"NOT {_is_held(job)}", "TRUE").replace(has_outage(job), "FALSE")
    return sql


DURING_OUTAGES = Statements(_ORGANIZATIONS, _CHOOSE, _READ, _CHOOSE_AND_CLAIM)
USUALLY = Statements(*map(_without_outages, msgspec.structs.astuple(DURING_OUTAGES)))

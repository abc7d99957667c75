"""Platforms and trackers that do not respond: their jobs wait until the next attempt is due.

The key of an outage is a connection, a repository that its platform cannot serve, `local` (the git
server of this service), or a tracker; a job has the key of its tracker in `waits_for`. A platform
that does not accept finished work of a repository is an outage for jobs with such work only.
"""

from collections.abc import Iterable

from agentjobs.jobs.queue.claim import PUBLISHER
from agentjobs.store.database import Database, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import in_transaction
from agentjobs.store.leases import backoff_ms
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.claimed_job import LOCAL, REFUSED
from agentjobs_runtime.protocol.outcomes import Outage

_FIRST_RETRY_MS = 5_000
_MAX_RETRY_MS = 60_000
_MAX_REQUESTED_MS = 900_000
# A person has to act before a platform accepts the work that it has refused.
REFUSED_RETRY_MS = 300_000
# After this time without an attempt, another failure is a new outage.
_FORGET_MS = 600_000

# The keys of the outages that concern the job with the row `{job}` of job_queue.
_KEYS = (
    "({job}.repo_id, {job}.waits_for,"
    f" (SELECT '{REFUSED}' || {{job}}.repo_id FROM kept_work k WHERE k.job_id = {{job}}.job_id),"
    f" (SELECT COALESCE(r.connection_id, '{LOCAL}') FROM repos r WHERE r.id = {{job}}.repo_id))"
)
_OF_JOB = f"SELECT 1 FROM platform_outages x WHERE x.key IN {_KEYS}"


def has_outage(job: str) -> str:
    """An SQL condition: the job's platform or tracker did not respond at the last attempt."""
    return f"EXISTS ({_OF_JOB.format(job=job)})"


def is_held(job: str) -> str:
    """An SQL condition with the parameter `now`: the next attempt is not due yet."""
    return f"EXISTS ({_OF_JOB.format(job=job)} AND x.retry_at > {DATABASE_NOW})"


async def record_outage(tx: Transaction, outage: Outage) -> int:
    """Postpone the next attempt; return when the outage began.

    Only the first failure of those that tried at the same time postpones it.
    """
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT since, failures, retry_at FROM platform_outages WHERE key = :key"
        " /*postgresql FOR UPDATE */",
        key=outage.key,
    )
    if row is not None and row["retry_at"] > now:
        since: int = row["since"]
        return since
    is_new = row is None or row["retry_at"] < now - _FORGET_MS
    since = now if row is None or is_new else row["since"]
    failures = 0 if row is None or is_new else row["failures"]
    wait_ms = max(
        REFUSED_RETRY_MS if outage.key.startswith(REFUSED) else 0,
        backoff_ms(failures, _FIRST_RETRY_MS, _MAX_RETRY_MS),
        min(int(outage.retry_after_seconds * 1_000), _MAX_REQUESTED_MS),
    )
    await tx.execute(
        "INSERT INTO platform_outages (key, since, failures, retry_at)"
        " VALUES (:key, :since, :failures, :retry_at) ON CONFLICT (key) DO UPDATE SET"
        " since = excluded.since, failures = excluded.failures, retry_at = excluded.retry_at",
        key=outage.key,
        since=since,
        failures=failures + 1,
        retry_at=now + wait_ms,
    )
    return since


async def postpone_others(tx: Transaction, keys: Iterable[str]) -> None:
    """While a claimed job makes the attempt that is due, the other jobs keep waiting."""
    rows = await tx.fetch_all(
        "SELECT key FROM platform_outages WHERE key IN (SELECT value FROM each(:keys))"
        " ORDER BY key",
        keys=list(keys),
    )
    for row in rows:
        await record_outage(tx, Outage(row["key"], ""))


async def unreachable_reason(db: Database, job_id: str) -> str | None:
    """The queue reason of a job while the last attempt to reach its platform or tracker failed,
    less than a minute ago or before the next one is due."""
    row = await db.fetch_one(
        "SELECT CASE WHEN x.key = q.waits_for THEN 'tracker_unreachable'"
        f" WHEN x.key = '{REFUSED}' || q.repo_id THEN 'platform_refused'"
        " ELSE 'platform_unreachable' END AS reason"
        f" FROM job_queue q JOIN platform_outages x ON x.key IN {_KEYS.format(job='q')}"
        f" WHERE q.job_id = :job_id AND x.retry_at + {_MAX_RETRY_MS} > {DATABASE_NOW}"
        " ORDER BY reason LIMIT 1",
        job_id=job_id,
        now=now_ms(),
    )
    return None if row is None else row["reason"]


async def waiting_by_outage(db: Database) -> dict[str, int]:
    """How many jobs wait for each platform or tracker that did not respond lately.

    The key is `LOCAL` for every repository of this service.
    """
    rows = await db.fetch_all(
        f"SELECT CASE WHEN x.key = r.id AND r.connection_id IS NULL THEN '{LOCAL}' ELSE x.key END"
        " AS outage, COUNT(DISTINCT q.job_id) AS jobs FROM job_queue q"
        " JOIN repos r ON r.id = q.repo_id"
        f" JOIN platform_outages x ON x.key IN {_KEYS.format(job='q')}"
        " WHERE (q.lease_owner IS NULL OR q.lease_owner = :publisher)"
        f" AND x.retry_at + {_MAX_RETRY_MS} > {DATABASE_NOW} GROUP BY outage ORDER BY outage",
        publisher=PUBLISHER,
        now=now_ms(),
    )
    return {row["outage"]: row["jobs"] for row in rows}


async def held_keys(db: Database) -> set[str]:
    """The keys whose next attempt is not due yet."""
    rows = await db.fetch_all(
        f"SELECT key FROM platform_outages WHERE retry_at > {DATABASE_NOW}", now=now_ms()
    )
    return {row["key"] for row in rows}


@in_transaction
async def end_outages(tx: Transaction, *keys: str) -> None:
    """The platform or tracker responded."""
    deleted = await tx.execute(
        "DELETE FROM platform_outages WHERE key IN (SELECT value FROM each(:keys))",
        keys=list(keys),
    )
    if deleted:
        tx.announce("jobs")


async def end_outages_of_connection(db: Database, connection_id: str) -> None:
    """The connection was checked or repaired: its jobs need not wait any longer."""
    repos = await db.fetch_all(
        "SELECT id FROM repos WHERE connection_id = :connection_id AND disconnected_at IS NULL",
        connection_id=connection_id,
    )
    keys = (key for repo in repos for key in (repo["id"], f"{REFUSED}{repo['id']}"))
    await end_outages(db, connection_id, *keys)


@in_transaction
async def prune_outages(tx: Transaction) -> None:
    """Delete those that no job has met for a while."""
    before = await tx.clock_ms() - _FORGET_MS
    await tx.execute("DELETE FROM platform_outages WHERE retry_at < :before", before=before)

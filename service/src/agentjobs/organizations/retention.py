"""Deletes expired sessions, sign-in links, counters of failed sign-ins and used form tokens."""

from agentjobs.organizations.throttle import WINDOW_MS
from agentjobs.store.database import Database
from agentjobs.store.in_transaction import execute_many
from agentjobs_runtime.clock import DAY_MS, HOUR_MS

_BATCH = 500
_EXPIRED_ROWS = (
    ("sessions", "hash", "expires_at <= :now OR seen_at <= :idle OR created_at <= :oldest"),
    ("sign_in_links", "hash", "expires_at <= :now"),
    # Sessions that could submit these again have expired.
    ("used_form_tokens", "hash", "used_at <= :oldest"),
    ("sign_in_failures", "subject", "since <= :window"),
)


async def prune_sign_ins(db: Database, now: int, *, idle_hours: float, session_days: float) -> int:
    """Delete one batch of expired rows per table; returns the number of deleted rows."""
    bounds = {
        "now": now,
        "idle": now - int(idle_hours * HOUR_MS),
        "oldest": now - int(session_days * DAY_MS),
        "window": now - WINDOW_MS,
    }
    pruned = 0
    for table, key, condition in _EXPIRED_ROWS:
        # A separate read finds the rows, so that writers do not wait for the scan.
        values = {name: bounds[name] for name in bounds if f":{name}" in condition}
        rows = await db.fetch_all(
            f"SELECT {key} AS key FROM {table} WHERE {condition} LIMIT {_BATCH}", **values
        )
        if rows:
            statement = f"DELETE FROM {table} WHERE {key} = :key AND ({condition})"
            expired = [{"key": row["key"], **values} for row in rows]
            await db.transact(execute_many, statement, expired)
        pruned += len(rows)
    return pruned

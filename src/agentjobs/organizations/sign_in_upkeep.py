"""Deletes what past sign-ins left behind: sessions, links, counts of failures, form tokens."""

from agentjobs.clock import DAY_MS, SECOND_MS
from agentjobs.organizations.throttle import WINDOW_MS
from agentjobs.store.database import Database, Transaction

_HOUR_MS = 3_600 * SECOND_MS
_BATCH = 500
_OVER = (
    ("sessions", "hash", "expires_at <= :now OR seen_at <= :idle OR created_at <= :oldest"),
    ("sign_in_links", "hash", "expires_at <= :now"),
    # No session that could send one again is older than this.
    ("used_form_tokens", "hash", "used_at <= :oldest"),
    ("sign_in_failures", "subject", "since <= :window"),
)


async def prune_sign_ins(db: Database, now: int, *, idle_hours: float, session_days: float) -> int:
    """Delete what is over, a batch of each kind; returns how many rows that were."""
    bounds = {
        "now": now,
        "idle": now - int(idle_hours * _HOUR_MS),
        "oldest": now - int(session_days * DAY_MS),
        "window": now - WINDOW_MS,
    }
    pruned = 0
    for table, key, is_over in _OVER:
        # Found by a reader: nobody who writes waits for the scan.
        needed = {name: bounds[name] for name in bounds if f":{name}" in is_over}
        rows = await db.fetch_all(
            f"SELECT {key} AS key FROM {table} WHERE {is_over} LIMIT {_BATCH}", **needed
        )
        if rows:
            statement = f"DELETE FROM {table} WHERE {key} = :key AND ({is_over})"
            await db.transact(_delete, statement, [{"key": row["key"], **needed} for row in rows])
        pruned += len(rows)
    return pruned


async def _delete(tx: Transaction, statement: str, rows: list[dict[str, object]]) -> None:
    await tx.execute_many(statement, rows)

"""Whether a connection works: its platform answers, accepts the credential and sends hooks.

Columns `account`, `commit_name`, `commit_email`, `error`, `checked_at`, `away_failures`,
`resting_until` and `hook_seen_at` of `platform_connections`.
"""

from agentjobs.platforms.protocol import Account
from agentjobs.store.database import Transaction
from agentjobs.store.leases import backoff_ms
from agentjobs_runtime.clock import SECOND_MS, now_ms

_FIRST_BACKOFF_MS = 30 * SECOND_MS
_MAX_BACKOFF_MS = 3_600 * SECOND_MS
# The row is not written for every delivery of a busy platform.
_HOOK_SEEN_INTERVAL_MS = 60 * SECOND_MS


def sync_backoff_ms(failures: int) -> int:
    """How long to wait after a failure that `failures` others preceded in a row."""
    return backoff_ms(failures, _FIRST_BACKOFF_MS, _MAX_BACKOFF_MS)


async def record_check(
    tx: Transaction,
    connection_id: str,
    *,
    account: Account | None = None,
    error: str | None = None,
) -> None:
    """Store the result of a check; what it did not find out stays as it is stored."""
    identity = None if account is None else account.identity
    await tx.execute(
        "UPDATE platform_connections SET account = COALESCE(CAST(:account AS TEXT), account),"
        " commit_name = COALESCE(CAST(:commit_name AS TEXT), commit_name),"
        " commit_email = COALESCE(CAST(:commit_email AS TEXT), commit_email),"
        " error = :error, checked_at = :now WHERE id = :id AND removed_at IS NULL",
        id=connection_id,
        account=None if account is None else account.login,
        commit_name=None if identity is None else identity.name,
        commit_email=None if identity is None else identity.email,
        error=error,
        now=now_ms(),
    )


async def record_unreachable(
    tx: Transaction, connection_id: str, asked_at: int, wait_seconds: float = 0.0
) -> None:
    """Pause all syncs of the connection; the pause grows until the platform answers again.

    It lasts for at least `wait_seconds`, which a rate limit asks for, up to an hour.
    """
    row = await tx.fetch_one(
        "SELECT away_failures, resting_until FROM platform_connections WHERE id = :id"
        " /*postgresql FOR UPDATE */",
        id=connection_id,
    )
    if row is None:
        return
    now, paused_until = await tx.clock_ms(), row["resting_until"] or 0
    until = now + min(int(wait_seconds * SECOND_MS), _MAX_BACKOFF_MS)
    # Syncs that ran concurrently count as one failure.
    is_counted = paused_until > asked_at
    if not is_counted:
        until = max(until, now + sync_backoff_ms(row["away_failures"]))
    await tx.execute(
        "UPDATE platform_connections SET away_failures = away_failures + :failures,"
        " resting_until = :until WHERE id = :id",
        id=connection_id,
        failures=0 if is_counted else 1,
        until=max(until, paused_until),
    )


async def record_reachable(tx: Transaction, connection_id: str) -> None:
    await tx.execute(
        "UPDATE platform_connections SET away_failures = 0, resting_until = NULL"
        " WHERE id = :id AND away_failures > 0",
        id=connection_id,
    )


async def end_pause(tx: Transaction, connection_id: str) -> None:
    """Let syncs run again; the next failure still counts on from the last one."""
    await tx.execute(
        "UPDATE platform_connections SET resting_until = NULL WHERE id = :id", id=connection_id
    )


async def clear_error(tx: Transaction, connection_id: str, error: str) -> None:
    """Clear this error only: a check may have stored another one since."""
    await tx.execute(
        "UPDATE platform_connections SET error = NULL, checked_at = :now"
        " WHERE id = :id AND error = :error",
        id=connection_id,
        error=error,
        now=now_ms(),
    )


async def record_hook(tx: Transaction, connection_id: str) -> None:
    now = await tx.clock_ms()
    await tx.execute(
        "UPDATE platform_connections SET hook_seen_at = :now WHERE id = :id"
        " AND (hook_seen_at IS NULL OR hook_seen_at < :before)",
        id=connection_id,
        now=now,
        before=now - _HOOK_SEEN_INTERVAL_MS,
    )

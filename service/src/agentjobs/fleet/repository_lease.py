"""Serializes changes to one bare repository among all processes, by a lease in the store.

Files cannot be locked reliably on the volume that the processes share.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.store.leases import NamedLease
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem

_LEASE_MS = 15 * SECOND_MS
_RENEW_SECONDS = 5.0
# Without a renewal the change is stopped so long after the last one: before the lease ends.
_MAX_UNRENEWED_SECONDS = 12.0
_POLL_SECONDS = 0.2
_MAX_WAIT_SECONDS = 60.0
_RETRY_SECONDS = 10
_TOPIC = "repositories"


@asynccontextmanager
async def changing_repository(db: Database, repo_id: str) -> AsyncIterator[None]:
    """Wait until no other change runs, and hold the lease while the block runs.

    Raises `unavailable` if the wait takes too long, or if the lease is lost.
    """
    lease = NamedLease(db, f"repository:{repo_id}", _LEASE_MS)
    stop_at = await _claim(db, lease)
    try:
        async with asyncio.timeout_at(stop_at) as limit:
            renewing = asyncio.create_task(_renew(lease, limit))
            try:
                yield
            finally:
                renewing.cancel()
    except TimeoutError:
        if limit.expired():
            raise _busy() from None
        raise
    finally:
        await asyncio.shield(lease.release(None, _TOPIC))


async def _claim(db: Database, lease: NamedLease) -> float:
    """When to stop, by the clock of this process."""
    try:
        async with asyncio.timeout(_MAX_WAIT_SECONDS):
            with db.changes.listen(_TOPIC) as signal:
                while True:
                    stop_at = _stop_at()
                    if await lease.claim():
                        return stop_at
                    await signal.wait(_POLL_SECONDS)
    except TimeoutError:
        raise _busy() from None


async def _renew(lease: NamedLease, limit: asyncio.Timeout) -> None:
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        stop_at = _stop_at()
        # The lease outlasts a short outage of the store.
        with suppress(StoreUnavailable):
            is_held = await lease.renew()
            limit.reschedule(stop_at if is_held else 0)
            if not is_held:
                return


def _stop_at() -> float:
    """Counted from before the store is asked, since the answer may come late."""
    return asyncio.get_running_loop().time() + _MAX_UNRENEWED_SECONDS


def _busy() -> Problem:
    return Problem(
        "unavailable",
        "Another change to this repository is taking too long. Try again later.",
        retry_after_seconds=_RETRY_SECONDS,
    )

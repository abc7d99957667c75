"""Serializes changes to one bare repository among all processes, by a lease in the store.

Files cannot be locked reliably on the volume that the processes share.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentjobs.clock import SECOND_MS
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import HeldLease, NamedLease

_LEASE_MS = 15 * SECOND_MS
_RENEW_SECONDS = 5.0
_POLL_SECONDS = 0.2
_MAX_WAIT_SECONDS = 60.0
_RETRY_SECONDS = 10
_TOPIC = "repositories"


@asynccontextmanager
async def changing_repository(db: Database, repo_id: str) -> AsyncIterator[None]:
    """Wait until no other change runs, and hold the lease while the block runs.

    Raises `unavailable` if the wait takes too long, or if the lease is lost.
    """
    lease = NamedLease(f"repository:{repo_id}", _LEASE_MS)
    held = HeldLease(db, lease, await _claim(db, lease))
    try:
        async with asyncio.timeout(None) as limit:
            renewing = asyncio.create_task(_renew(held, limit))
            try:
                yield
            finally:
                renewing.cancel()
    except TimeoutError:
        if limit.expired():
            raise _busy() from None
        raise
    finally:
        await asyncio.shield(db.transact(_release, held))


async def _claim(db: Database, lease: NamedLease) -> int:
    try:
        async with asyncio.timeout(_MAX_WAIT_SECONDS):
            with db.changes.listen(_TOPIC) as signal:
                while (until := await db.transact(lease.claim)) is None:
                    await signal.wait(_POLL_SECONDS)
    except TimeoutError:
        raise _busy() from None
    return until


async def _renew(held: HeldLease, limit: asyncio.Timeout) -> None:
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        if not await held.renew():
            limit.reschedule(asyncio.get_running_loop().time())
            return


async def _release(tx: Transaction, held: HeldLease) -> None:
    await held.release_in(tx)
    tx.announce(_TOPIC)


def _busy() -> Problem:
    return Problem(
        "unavailable",
        "Another change to this repository is taking too long. Try again later.",
        retry_after_seconds=_RETRY_SECONDS,
    )

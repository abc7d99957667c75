"""A role that one process of the fleet performs at a time, at a fixed interval, under a lease."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentjobs.store.database import Database
from agentjobs.store.leases import NamedLease, run_renewing
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.protocol.errors import ClaimLost

_LEASE_MS = 30 * SECOND_MS
_RENEW_SECONDS = 10.0
_MAX_POLL_SECONDS = 30.0
_log = logging.getLogger(__name__)


class RoleLoop:
    """Calls `once` when the role is due and no other process performs it.

    With `at_start`, a process that starts performs it even if it is not due. While `is_able`
    returns False, the role is left to other processes.
    """

    def __init__(
        self,
        db: Database,
        name: str,
        every_seconds: float,
        once: Callable[[], Awaitable[None]],
        *,
        first_after_seconds: float = 0,
        at_start: bool = False,
        is_able: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self._every_seconds = every_seconds
        self._once = once
        self._next_after_seconds = first_after_seconds
        self._even_if_not_due = at_start
        self._is_able = is_able
        self._lease = NamedLease(db, f"role:{name}", _LEASE_MS)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._next_after_seconds)
            self._next_after_seconds = min(self._every_seconds, _MAX_POLL_SECONDS)
            if self._is_able():
                await self.run_if_due()

    async def run_if_due(self) -> bool:
        """False if it is not due, or another process performs it."""
        if not await self._lease.claim(even_if_not_due=self._even_if_not_due):
            return False
        self._even_if_not_due = False
        due_in_ms = 0
        try:
            await run_renewing(self._call(), self._lease.renew, _RENEW_SECONDS, _LEASE_MS)
            due_in_ms = int(self._every_seconds * SECOND_MS)
        except ClaimLost:
            _log.warning("%s was interrupted: another process performs it", self.name)
        except Exception:
            due_in_ms = int(self._every_seconds * SECOND_MS)
            raise
        finally:
            # A process that stops leaves the role to another one at once.
            await self._lease.release(due_in_ms)
        return True

    async def _call(self) -> None:
        await self._once()

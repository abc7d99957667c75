"""Follows what happens on platforms: works off their hints, looks at repositories that are due.

Runs on the one host where the bare repositories live.
"""

import asyncio
import logging
import time
from collections import Counter

import msgspec

from agentjobs.platform_sync import hook_events
from agentjobs.platform_sync.claims import DueSync, SyncClaim, claim_sync_due
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.repos.sync_requests import TOPIC
from agentjobs.store.changes import Signal
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.store.leases import run_renewing

MOST_AT_ONCE = 8
# Nobody's platform, however slow, may keep the others' waiting.
MOST_OF_AN_ORGANIZATION = 3
MOST_OF_A_CONNECTION = 2
# A look that lasts longer fetches something large. It takes a place of its organization only, as
# long as there are not too many of them.
LONG_SECONDS = 150.0
MOST_LONG = 24

_POLL_SECONDS = 5.0
_RENEW_SECONDS = 60.0
_OWN_FAULT = "Something failed inside the service; its log says what. It is tried again."
_log = logging.getLogger(__name__)


class Running(msgspec.Struct, frozen=True):
    due: DueSync
    since: float


class PlatformLoop:
    name = "forges"

    def __init__(self, db: Database, sync: PlatformSync) -> None:
        self._db = db
        self._sync = sync
        self._running: dict[asyncio.Task[None], Running] = {}

    async def run(self) -> None:
        with self._db.changes.listen(TOPIC) as signal:
            try:
                while True:
                    is_more = await self.process_hook_events()
                    await self._start_due(signal)
                    if not is_more:
                        await signal.wait(_POLL_SECONDS)
            finally:
                await self._stop()

    async def process_hook_events(self) -> bool:
        """Some of them; whether there may be more."""
        return await hook_events.process_hook_events(self._db) >= hook_events.MOST_AT_ONCE

    async def sync_one(self) -> bool:
        """False when nothing was due that is not being looked at."""
        due = await self._claim()
        if due is not None:
            await self._look_at(due)
        return due is not None

    async def _start_due(self, signal: Signal) -> None:
        while self._has_place() and (due := await self._claim()) is not None:
            task = asyncio.create_task(self._look_at(due), name=due.repo.id)
            self._running[task] = Running(due, time.monotonic())
            task.add_done_callback(lambda done: self._ended(done, signal))

    def _has_place(self) -> bool:
        is_long_since = time.monotonic() - LONG_SECONDS
        long = sum(one.since < is_long_since for one in self._running.values())
        return len(self._running) - min(long, MOST_LONG) < MOST_AT_ONCE

    def _ended(self, task: asyncio.Task[None], signal: Signal) -> None:
        del self._running[task]
        # Its place is free, and it may be due again already.
        signal.set()

    async def _claim(self) -> DueSync | None:
        repos = [one.due.repo for one in self._running.values()]
        of_organizations = Counter(repo.organization_id for repo in repos)
        of_connections = Counter(repo.connection_id for repo in repos)
        crowded = [
            *(one for one, count in of_organizations.items() if count >= MOST_OF_AN_ORGANIZATION),
            *(one for one, count in of_connections.items() if count >= MOST_OF_A_CONNECTION),
        ]
        return await claim_sync_due(self._db, [repo.id for repo in repos], crowded)

    async def _look_at(self, due: DueSync) -> None:
        """What fails here is due again when the claim is over."""
        claim = SyncClaim(self._db, due)
        fields = {"repo_id": due.repo.id}
        try:
            # A first fetch may take longer than the lease.
            await run_renewing(self._sync.sync(claim), lambda: _renew(claim), _RENEW_SECONDS)
        except StoreUnavailable as error:
            _log.warning("a repository was not looked at: %s", error, extra={"fields": fields})
        except Exception:  # noqa: BLE001 - one must not keep the others waiting
            _log.exception("a repository was not looked at", extra={"fields": fields})
            await self._fail(claim)

    async def _fail(self, claim: SyncClaim) -> None:
        try:
            await claim.fail(_OWN_FAULT)
        except StoreUnavailable as error:
            _log.warning("that it failed was not written down: %s", error)

    async def _stop(self) -> None:
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _renew(claim: SyncClaim) -> bool:
    try:
        await claim.renew()
    except StoreUnavailable as error:
        _log.warning("a claim was not renewed: %s", error)
    return True

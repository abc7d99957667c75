"""Scans dependencies of repositories when dependencies or advisories have changed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from agentjobs.advisories.scans import (
    DueScan,
    ScanClaim,
    claim_due_scan,
    make_all_due,
    scan_repository,
)
from agentjobs.fleet.processes import HEARTBEAT_SECONDS, is_first_process
from agentjobs.repos.queues import SCAN
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.store.leases import run_renewing
from agentjobs_dependencies.version_choice import VersionChooser
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.protocol.errors import ClaimLost

_log = logging.getLogger(__name__)
_POLL_SECONDS = 5.0
_RENEW_SECONDS = 15.0
# By then, another process that is alive has had a heartbeat.
_RESCAN_AFTER_SECONDS = 1.5 * HEARTBEAT_SECONDS


class ScanLoop:
    """`after_scan` acts on the findings. The scan is finished only after it returns, so it is
    called again after a crash. `turns` are shared with loops that scan beside this one."""

    name = "scan"

    def __init__(
        self,
        db: Database,
        chooser: VersionChooser,
        after_scan: Callable[[str], Awaitable[object]],
        turns: FairTurns | None = None,
    ) -> None:
        self._db = db
        self._chooser = chooser
        self._after_scan = after_scan
        self._turns = turns or FairTurns()

    async def run(self) -> None:
        with self._db.changes.listen("scan") as signal:
            while True:
                if not await self.scan_one():
                    await signal.wait(_POLL_SECONDS)

    async def scan_one(self) -> bool:
        """False if no repository was due."""
        async with self._turns.take(partial(claim_due_scan, self._db)) as scan:
            if scan is not None:
                await self._scan_claimed(scan)
        return scan is not None

    async def _scan_claimed(self, scan: DueScan) -> None:
        claim = ScanClaim(self._db, scan)
        try:
            await run_renewing(self._scan(scan), claim.renew, _RENEW_SECONDS, SCAN.lease_ms)
        except StoreUnavailable:
            raise
        except ClaimLost:
            _log.warning("a scan was interrupted: the store did not answer in time")
        except Exception:  # noqa: BLE001 - one repository must not block the others
            _log.exception("repository not scanned", extra={"fields": {"repo_id": scan.repo_id}})
            await claim.fail()
        else:
            await claim.release(None)

    async def _scan(self, scan: DueScan) -> None:
        count = await scan_repository(self._db, scan, self._chooser)
        await self._after_scan(scan.repo_id)
        fields = {"repo_id": scan.repo_id, "findings": count}
        _log.info("dependencies scanned", extra={"fields": fields})


class RescanLoop:
    """Makes everything due for a scan once, in the first process that starts with its settings.

    Others would repeat it. After a restart, the former process counts until it is known to have
    ended.
    """

    name = "rescan"

    def __init__(self, db: Database, process_id: str) -> None:
        self._db = db
        self._process_id = process_id

    async def run(self) -> None:
        await asyncio.sleep(_RESCAN_AFTER_SECONDS)
        if await is_first_process(self._db, self._process_id):
            await make_all_due(self._db)

"""Scans dependencies of repositories when dependencies or advisories have changed."""

import logging
from collections.abc import Awaitable, Callable

from agentjobs.advisories.scans import (
    DueScan,
    ScanClaim,
    VersionChooser,
    claim_due_scan,
    make_all_due,
    scan_repository,
)
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.store.leases import run_renewing

_log = logging.getLogger(__name__)
_POLL_SECONDS = 5.0
_RENEW_SECONDS = 15.0


class ScanLoop:
    """`after_scan` acts on the findings. The scan is finished only after it returns, so it is
    called again after a crash."""

    name = "scan"

    def __init__(
        self,
        db: Database,
        chooser: VersionChooser,
        after_scan: Callable[[str], Awaitable[object]],
    ) -> None:
        self._db = db
        self._chooser = chooser
        self._after_scan = after_scan
        self._has_started = False

    async def run(self) -> None:
        with self._db.changes.listen("scan") as signal:
            if not self._has_started:
                await make_all_due(self._db)
                self._has_started = True
            while True:
                if not await self.scan_one():
                    await signal.wait(_POLL_SECONDS)

    async def scan_one(self) -> bool:
        """False if no repository was due."""
        scan = await claim_due_scan(self._db)
        if scan is None:
            return False
        claim = ScanClaim(self._db, scan)
        try:
            await run_renewing(self._scan(scan), claim.renew, _RENEW_SECONDS)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - one repository must not block the others
            _log.exception("repository not scanned", extra={"fields": {"repo_id": scan.repo_id}})
            await claim.fail(f"{type(error).__name__}: {error}")
        else:
            await claim.finish()
        return True

    async def _scan(self, scan: DueScan) -> None:
        count = await scan_repository(self._db, scan, self._chooser)
        await self._after_scan(scan.repo_id)
        fields = {"repo_id": scan.repo_id, "findings": count}
        _log.info("dependencies scanned", extra={"fields": fields})

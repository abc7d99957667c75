"""Reports the results of jobs on their pull requests, as they become due.

Runs in every process with an API; each report is written by one of them, under a lease.
"""

import asyncio

from agentjobs.platform_sync.statuses import StatusReporter
from agentjobs.pulls.status_rows import TOPIC, has_due_status
from agentjobs.store.database import Database

_POLL_SECONDS = 5.0
_MAX_CONCURRENT = 4


class StatusLoop:
    name = "statuses"

    def __init__(self, db: Database, reporter: StatusReporter) -> None:
        self._db = db
        self._reporter = reporter

    async def run(self) -> None:
        with self._db.changes.listen(TOPIC) as signal:
            while True:
                if await has_due_status(self._db):
                    await self._report_all()
                await signal.wait(_POLL_SECONDS)

    async def _report_all(self) -> None:
        """Several at once, so that a slow platform does not delay the others."""
        reports = (self._report_due() for _ in range(_MAX_CONCURRENT))
        for failure in await asyncio.gather(*reports, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _report_due(self) -> None:
        while await self._reporter.report_next():
            pass

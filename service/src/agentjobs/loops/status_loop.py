"""Reports the results of jobs on their pull requests, as they become due.

Runs several times in every process with an API, so that a slow platform does not delay the others;
each report is written by one of them, under a lease.
"""

from agentjobs.platform_sync.statuses import StatusReporter
from agentjobs.pulls.status_rows import TOPIC, has_due_status
from agentjobs.store.database import Database

_POLL_SECONDS = 5.0


class StatusLoop:
    name = "statuses"

    def __init__(self, db: Database, reporter: StatusReporter) -> None:
        self._db = db
        self._reporter = reporter

    async def run(self) -> None:
        with self._db.changes.listen(TOPIC) as signal:
            while True:
                while await has_due_status(self._db) and await self._reporter.report_next():
                    pass
                await signal.wait(_POLL_SECONDS)

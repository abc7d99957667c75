"""Reports the results of jobs on their pull requests, apart from the jobs themselves.

A platform that is away delays only the report. Writing it twice does no harm.
"""

import asyncio
import logging
from functools import partial
from typing import NamedTuple

from agentjobs.connections.health import sync_backoff_ms
from agentjobs.jobs.states import FINAL
from agentjobs.platform_sync.sync import RETRY_SECONDS, PlatformSource
from agentjobs.platforms.http.client import ApiError, RetryBudget
from agentjobs.platforms.protocol import CommitStatus, PlatformError, RepoAddress, StatusState
from agentjobs.pulls import status_rows
from agentjobs.pulls.status_rows import DueStatus
from agentjobs.store.database import Database
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.settings import Settings

# How often the job is looked at while it is active; that asks the store, not the platform.
ACTIVE_SECONDS = 10.0
MAX_FAILURES = 20
# A platform may not know a commit yet that git has just pushed.
MAX_REFUSALS = 6
TIMEOUT_SECONDS = 20.0
_MAX_ERROR_LENGTH = 500
_log = logging.getLogger(__name__)


class Report(NamedTuple):
    state: StatusState
    description: str


class StatusReporter:
    """One per process, for several loops."""

    def __init__(self, db: Database, settings: Settings, platforms: PlatformSource) -> None:
        self._db = db
        self._public_url = settings.effective_public_url
        self._platforms = platforms
        self._turns = FairTurns()

    async def report_next(self) -> bool:
        """False if none is due."""
        async with self._turns.take(partial(status_rows.claim_due_status, self._db)) as due:
            if due is not None:
                await self._report(due)
        return due is not None

    async def _report(self, due: DueStatus) -> None:
        report = decide_report(due)
        try:
            if report is not None and not is_written(due, report):
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await self._write(due, report)
        except TimeoutError:
            await self._fail(due, PlatformError("The platform did not answer in time.", "away"))
        except PlatformError as error:
            await self._fail(due, error)
        else:
            is_active = report is not None and report.state == "pending"
            wait_seconds = ACTIVE_SECONDS if is_active else None
            state = None if report is None else report.state
            await self._db.transact(status_rows.finish, due, state, wait_seconds)

    async def _write(self, due: DueStatus, report: Report) -> None:
        budget = RetryBudget(RETRY_SECONDS)
        platform = await self._platforms.adapter_for(due.connection_id, budget)
        address = RepoAddress(due.organization, due.full_name, due.repo_id, due.external_id)
        status = CommitStatus(
            commit=due.pull_commit,
            branch=due.branch,
            state=report.state,
            description=report.description,
            url=f"{self._public_url}/jobs/{due.job_id}",
        )
        await platform.set_status(address, status)

    async def _fail(self, due: DueStatus, error: PlatformError) -> None:
        """An error that waiting does not mend stays until a new job, a new head or a check."""
        is_outage = error.fault in {"away", "unauthorized"}
        max_failures = MAX_FAILURES if is_outage else MAX_REFUSALS
        is_final = error.fault == "denied" or due.failures + 1 >= max_failures
        wait_ms = sync_backoff_ms(due.failures)
        if isinstance(error, ApiError):
            wait_ms = max(wait_ms, int(error.retry_after_seconds * SECOND_MS))
        reason = str(error)[:_MAX_ERROR_LENGTH]
        fields = {"repo_id": due.repo_id, "pull": due.number, "failures": due.failures + 1}
        _log.warning("a result was not reported: %s", reason, extra={"fields": fields})
        wait = None if is_final else wait_ms
        await self._db.transact(status_rows.fail, due, reason, wait, is_outage=is_outage)


def decide_report(due: DueStatus) -> Report | None:
    """None if there is nothing to report."""
    if due.pull_state != "open" or not due.pull_commit or due.job_status is None:
        return None
    if due.job_status not in FINAL:
        return Report("pending", f"{due.job_agent} is working on this pull request")
    if _was_changed_since(due):
        return Report("neutral", "Commits were added after the last job")
    return _report_of_outcome(due)


def _report_of_outcome(due: DueStatus) -> Report:
    if due.job_status == "completed":
        return Report("success", f"{due.job_agent} has finished")
    if due.job_status == "cancelled":
        return Report("neutral", "The last job was cancelled")
    if due.job_error_code == "no_changes":
        return Report("neutral", f"{due.job_agent} proposed no further change")
    return Report("failure", f"The last job failed ({due.job_error_code})")


def is_written(due: DueStatus, report: Report) -> bool:
    written = (due.written_job_id, due.written_commit, due.written_state)
    return written == (due.job_id, due.pull_commit, report.state)


def _was_changed_since(due: DueStatus) -> bool:
    """Whether the head is neither what the job pushed nor what it was reported on."""
    if due.job_status == "completed":
        return due.job_commit != due.pull_commit
    return due.written_job_id == due.job_id and due.written_commit != due.pull_commit

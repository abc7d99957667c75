"""Stores what the agent changed, for the API and the pages. No job fails without it."""

from agentjobs.git.process import GitError
from agentjobs.jobs.results.diffs import store_diff
from agentjobs.jobs.run.context import RunContext
from agentjobs.jobs.run.retry import retry_within_lease
from agentjobs.store.database import StoreError


async def record_diff(run: RunContext, base: str, commit: str) -> None:
    try:
        await retry_within_lease(
            lambda: store_diff(run.db, run.job, run.mirror, base, commit),
            run.settings.lease_seconds,
        )
    except (GitError, OSError, StoreError) as error:
        run.log.note(f"the diff could not be stored: {error}")

"""Holds the jobs that wait for a build, and releases them at its end."""

from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import (
    BUILD_HOLD_MS,
    OUTAGE_HOLD_MS,
    PREFERENCE_MS,
    hold_key,
)
from agentjobs_runtime.protocol.outcomes import EnvironmentHold
from agentjobs_worker.environments.worker_environments import BuildHooks
from agentjobs_worker.link.queue import hold_jobs
from agentjobs_worker.link.store import Database


def build_hooks(
    db: Database, repo_id: str, request: EnvironmentRequest, location: str
) -> BuildHooks:
    key = hold_key(repo_id, request.request_key)

    async def renew() -> None:
        await hold_jobs(db, EnvironmentHold(key, repo_id, None, BUILD_HOLD_MS, request.request_key))

    async def end(waits_for: str | None) -> None:
        if waits_for is not None:
            hold = EnvironmentHold(key, repo_id, None, OUTAGE_HOLD_MS)
        else:
            # Also after a failure, which this worker reports to the jobs.
            hold = EnvironmentHold(key, repo_id, location, PREFERENCE_MS)
        await hold_jobs(db, hold)

    return BuildHooks(renew, end)

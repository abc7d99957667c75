"""Stores the artifacts that the agent left, whether or not it succeeded."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agentjobs.agents.artifacts import read_artifacts
from agentjobs.jobs.results.artifacts import store_artifacts
from agentjobs.jobs.run.context import RunContext
from agentjobs.jobs.run.disk_space import is_lack_of_space
from agentjobs.jobs.run.retry import retry_within_lease
from agentjobs.jobs.run.warnings import warn
from agentjobs.store.database import StoreError
from agentjobs.workspace.threads import run_in_thread

_MAX_NAMED = 5


@contextlib.asynccontextmanager
async def kept_artifacts(run: RunContext, run_dir: Path) -> AsyncIterator[None]:
    """Around the agent's run. One that is cancelled or interrupted keeps none."""
    try:
        yield
    except Exception as error:
        if not is_lack_of_space(error, run):
            await _keep(run, run_dir)
        raise
    await _keep(run, run_dir)


async def _keep(run: RunContext, run_dir: Path) -> None:
    artifacts = await run_in_thread(read_artifacts, run_dir)
    if artifacts.files:
        try:
            await retry_within_lease(
                lambda: store_artifacts(run.db, run.job, artifacts.files),
                run.settings.lease_seconds,
            )
        except StoreError as error:
            run.log.note(f"the artifacts could not be stored: {error}")
    if artifacts.left_out:
        await warn(run, _warning(artifacts.left_out))


def _warning(left_out: Sequence[str]) -> str:
    named = ", ".join(left_out[:_MAX_NAMED])
    more = len(left_out) - _MAX_NAMED
    return f"Artifacts left out: {named}{f', and {more} more' if more > 0 else ''}."

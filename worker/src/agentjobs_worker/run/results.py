"""What a run leaves besides its pull request: the agent's artifacts, and its change as a diff.

They are collected when the agent ends, and stored only once its work is protected, so that a
database that is away costs no work. No job fails because of them.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agentjobs_runtime.agents.artifacts import Artifacts, read_artifacts
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError, retry_within_lease
from agentjobs_runtime.protocol.messages import StoreArtifacts
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.link.publishing import store_diff
from agentjobs_worker.run.context import RunContext

_MAX_NAMED = 5


@contextlib.asynccontextmanager
async def collect_artifacts(run: RunContext, run_dir: Path) -> AsyncIterator[None]:
    """Around the agent's run, however it ends."""
    try:
        yield
    finally:
        run.artifacts = await run_in_thread(read_artifacts, run_dir)


async def store_results(run: RunContext) -> None:
    """Store what is not stored yet. Raises ServiceError and ClaimLost."""
    if run.change is not None:
        try:
            await store_diff(
                run.service.db, run.job, run.mirror, run.change.base, run.change.commit
            )
        except (GitError, OSError) as error:
            run.log.note(f"the diff could not be stored: {error}")
        run.change = None
    if run.artifacts.files:
        await run.link.call(StoreArtifacts(run.job.claim, run.artifacts.files))
    if run.artifacts.left_out:
        await run.warn(_warning(run.artifacts.left_out))
    run.artifacts = Artifacts()


async def store_results_at_end(run: RunContext, error: Exception | None = None) -> None:
    """The same for a run that is over; `error` is what it failed with."""
    has_results = run.change is not None or run.artifacts != Artifacts()
    if not has_results or (error is not None and is_lack_of_space(error, run.settings)):
        return
    with contextlib.suppress(ServiceError, ClaimLost):
        await retry_within_lease(lambda: store_results(run), run.settings.lease_seconds)


def _warning(left_out: Sequence[str]) -> str:
    named = ", ".join(left_out[:_MAX_NAMED])
    more = len(left_out) - _MAX_NAMED
    return f"Artifacts left out: {named}{f', and {more} more' if more > 0 else ''}."

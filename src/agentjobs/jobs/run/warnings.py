"""Warns the client of a job: in the job's log and in its `warnings`."""

import contextlib

from agentjobs.jobs.queue.warnings import add_warnings
from agentjobs.jobs.run.context import RunContext
from agentjobs.store.database import StoreError


async def warn(run: RunContext, *messages: str) -> None:
    if not messages:
        return
    for message in messages:
        run.log.note(f"warning: {message}")
    # A run does not fail because of a warning that could not be stored.
    with contextlib.suppress(StoreError):
        await run.db.transact(add_warnings, run.job, [run.log.redact(each) for each in messages])

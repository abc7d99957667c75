"""Failures for lack of disk space, processes or memory, which are the worker's, not the job's."""

import asyncio
import re
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs.environments.errors import EnvironmentFailed
from agentjobs.free_space import NO_SPACE, FreeSpace
from agentjobs.git.process import GitError, GitTimeout, reports_lack_of_space
from agentjobs.jobs.outcomes import JobFailed, LimitExceeded
from agentjobs.jobs.run.context import RunContext
from agentjobs.sandbox.host_shortage import is_shortage
from agentjobs.sandbox.protocol import HostExhausted

T = TypeVar("T")

# Lines of the remote have a prefix.
_NO_PROCESS = re.compile(r"(?im)^(?!remote:).*(?:(?:cannot|unable to) fork|fork failed)")
_PAUSE_SECONDS = 5.0
# How long an agent's change waits for what its commit and checks need.
_MAX_WAIT_SECONDS = 600.0


def is_lack_of_space(error: BaseException, run: RunContext) -> bool:
    """Whether the error says so, or the disk is full: an agent may fail for it in any way."""
    if isinstance(error, LimitExceeded):
        return False
    return _reports_lack_of_space(error) or _free_space(run).is_full


def is_host_exhausted(error: BaseException) -> bool:
    """Whether the worker's machine had no process, memory or descriptor left."""
    if isinstance(error, GitError) and error.exit_code == -signal.SIGKILL:
        return not isinstance(error, GitTimeout)
    return any(
        is_shortage(cause)
        or isinstance(cause, HostExhausted)
        or (isinstance(cause, GitError) and _NO_PROCESS.search(cause.stderr) is not None)
        for cause in _chain(error)
    )


async def retry_while_exhausted(step: Callable[[], Awaitable[T]], run: RunContext) -> T:
    """Repeat a step until the machine has what it needs, so that the agent's work is not done
    again."""
    give_up_at = time.monotonic() + _MAX_WAIT_SECONDS
    while True:
        try:
            return await step()
        except Exception as error:
            is_exhausted = _reports_lack_of_space(error) or is_host_exhausted(error)
            if not is_exhausted or time.monotonic() > give_up_at:
                raise
            run.log.note(f"the change waits for the machine of the worker: {error}")
            await asyncio.sleep(_PAUSE_SECONDS)


def _reports_lack_of_space(error: BaseException) -> bool:
    """The error, or one of those that it was raised for."""
    for each in _chain(error):
        is_number = isinstance(each, OSError) and each.errno in NO_SPACE
        # These quote the agent or the setup, whose own directories in memory may be full.
        is_own_text = not isinstance(each, JobFailed | EnvironmentFailed)
        if is_number or (is_own_text and reports_lack_of_space(str(each))):
            return True
    return False


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error that is raised again while its consequence is handled is part of a circle."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _free_space(run: RunContext) -> FreeSpace:
    return FreeSpace(run.settings.data_path, run.settings.disk_floor_mib)

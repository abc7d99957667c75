"""Failures for lack of disk space, which are the machine's and not the job's."""

from agentjobs_runtime.free_space import NO_SPACE, FreeSpace
from agentjobs_runtime.git.process import reports_lack_of_space
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed, JobFailed, LimitExceeded
from agentjobs_runtime.settings import Settings


def is_lack_of_space(error: BaseException, settings: Settings) -> bool:
    """Whether the error says so, or the disk is full: an agent may fail for it in any way."""
    if isinstance(error, LimitExceeded):
        return False
    free_space = FreeSpace(settings.data_path, settings.disk_floor_mib)
    return mentions_lack_of_space(error) or free_space.is_full


def mentions_lack_of_space(error: BaseException) -> bool:
    """The error, or one of its causes."""
    for cause in causes(error):
        is_number = isinstance(cause, OSError) and cause.errno in NO_SPACE
        # These quote the agent or the setup, whose own directories in memory may be full.
        is_own_text = not isinstance(cause, JobFailed | EnvironmentFailed)
        if is_number or (is_own_text and reports_lack_of_space(str(cause))):
            return True
    return False


def causes(error: BaseException | None) -> list[BaseException]:
    """The error and its causes. An error that is raised again while its consequence is handled
    is among its own causes."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain

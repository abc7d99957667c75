"""Failures for lack of processes, memory or descriptors, which are the machine's and not the
job's."""

import errno
import re
import signal

from agentjobs_runtime.git.process import GitError, GitTimeout
from agentjobs_runtime.protocol.disk_space import causes

_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
# Lines of the remote have a prefix.
_NO_PROCESS = re.compile(r"(?im)^(?!remote:).*(?:(?:cannot|unable to) fork|fork failed)")


def is_shortage(error: BaseException) -> bool:
    """Whether this process could not get a process, a thread, memory or a descriptor."""
    is_of_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    is_number = isinstance(error, OSError) and error.errno in _ERRORS
    return is_number or is_of_thread or isinstance(error, MemoryError)


def is_machine_exhausted(error: BaseException) -> bool:
    """Whether this process, or a git process, could not get what it needed."""
    if isinstance(error, GitError) and error.exit_code == -signal.SIGKILL:
        return not isinstance(error, GitTimeout)
    return any(
        is_shortage(cause)
        or (isinstance(cause, GitError) and _NO_PROCESS.search(cause.stderr) is not None)
        for cause in causes(error)
    )

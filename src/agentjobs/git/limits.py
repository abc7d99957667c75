"""Limits of every git process, which the kernel enforces: what git reads may be hostile.

A pack of some kilobytes can describe objects of gigabytes, so its size on the wire bounds nothing.
"""

import contextlib
import os
import resource
import signal

import msgspec

NICE = 5


class GitLimits(msgspec.Struct, frozen=True):
    """For each process that a command starts. Mapped files do not count as memory."""

    memory_bytes: int = 1024**3
    cpu_seconds: int = 900


_current = GitLimits()


def set_git_limits(limits: GitLimits) -> None:
    """For all git processes of this process, once, when it starts."""
    global _current  # noqa: PLW0603 - like a rlimit, it belongs to the process
    _current = limits


def limit_process(pid: int) -> None:
    """Limit a process that has just started; its children inherit the limits.

    Setting them from outside keeps `Popen` on its fast path, which runs no code in the child.
    """
    with contextlib.suppress(ProcessLookupError):
        _lower(pid, resource.RLIMIT_DATA, _current.memory_bytes)
        _lower(pid, resource.RLIMIT_CPU, _current.cpu_seconds)
        _lower(pid, resource.RLIMIT_CORE, 0)
        # The service stays responsive while git computes.
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)


def _lower(pid: int, kind: int, value: int) -> None:
    """Set the soft limit, at which SIGXCPU names the reason. The hard one would be SIGKILL."""
    soft, hard = resource.prlimit(pid, kind)
    if soft == resource.RLIM_INFINITY or soft > value:
        resource.prlimit(pid, kind, (value, hard))


def explain_limit(exit_code: int, stderr: str) -> str | None:
    """The limit that ended a command, as a sentence's predicate; None if it was another reason."""
    if "ut of memory" in stderr or "mmap failed: Cannot allocate memory" in stderr:
        mib = _current.memory_bytes // 1024**2
        return f"git needs more than {mib} MiB of memory (the setting limit_git_memory_mib)"
    if exit_code == -signal.SIGXCPU or f"died of signal {signal.SIGXCPU}" in stderr:
        return (
            f"git needs more than {_current.cpu_seconds} seconds of CPU time"
            " (the setting limit_git_cpu_seconds)"
        )
    return None

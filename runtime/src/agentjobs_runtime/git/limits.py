"""Limits of every git process, which the kernel enforces: what git reads may be hostile.

A pack of some kilobytes can describe objects of gigabytes, so its size on the wire bounds nothing.
"""

import contextlib
import os
import resource
import signal

import msgspec

NICE = 10


class GitLimits(msgspec.Struct, frozen=True):
    """For each process that a command starts. Mapped files do not count as memory."""

    memory_bytes: int = 1024**3
    cpu_seconds: int = 900


_current = GitLimits()


def set_git_limits(limits: GitLimits) -> None:
    """For all git processes of this process, once, when it starts."""
    global _current  # noqa: PLW0603 - like a rlimit, it belongs to the process
    _current = limits


def limit_resources(*command: str, cpu_seconds: int | None = None) -> tuple[str, ...]:
    """The command with its limits, which its children inherit; `cpu_seconds` may lower one.

    A separate program sets them. `Popen` could do it only by running Python code in the child,
    which takes longer, and setting them from outside is too late: git starts children at once.
    """
    cpu_seconds = min(cpu_seconds or _current.cpu_seconds, _current.cpu_seconds)
    options = (
        _option("data", resource.RLIMIT_DATA, _current.memory_bytes),
        _option("cpu", resource.RLIMIT_CPU, cpu_seconds),
        _option("core", resource.RLIMIT_CORE, 0),
    )
    return ("prlimit", *options, *command)


def lower_priority(pid: int) -> None:
    """The service stays responsive while the process computes."""
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)


def _option(name: str, kind: int, value: int) -> str:
    """Sets the soft limit, at which SIGXCPU names the reason; the hard one would be SIGKILL."""
    hard = resource.getrlimit(kind)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    return f"--{name}={soft}:"


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
    if exit_code == -signal.SIGXFSZ or f"died of signal {signal.SIGXFSZ}" in stderr:
        return "git writes more than a checkout of this repository may have (limit_checkout_mib)"
    return None

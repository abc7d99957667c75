"""The Sandbox protocol: a place where one untrusted command runs on one workspace and then ends.

Knows nothing of jobs, git or agents' definitions; a container or a pod could implement it too.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from agentjobs.sandbox.limits import Limits

JOB_FILE = "job.json"
REPORT_DIRECTORY = "report"
REPORT_FILE = "pull_request.md"

OnOutput = Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A port on the sandbox's loopback that the worker answers: the only way out there is.

    In the values of `environment`, `{address}` becomes the HOST:PORT the agent finds it at.
    """

    port: int
    protocol: Callable[[], asyncio.BaseProtocol]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTask:
    """One command. `run_dir` holds `job.json` (read-only inside) and `report/` (writable).

    `hosts` are names and the loopback addresses they have inside, where doors answer them.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    workspace: Path
    run_dir: Path
    timeout_seconds: float
    slot: int
    limits: Limits = field(default_factory=Limits)
    read_only: tuple[Path, ...] = ()
    doors: tuple[Door, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended; `exit_code` is None when the wall clock or a limit ended it.

    `exceeded` says which limit, in words: "4 GiB of memory".
    """

    exit_code: int | None
    timed_out: bool
    exceeded: str | None = None
    last_lines: str
    duration_ms: int


class SandboxError(Exception):
    """The sandbox could not be started; nothing of the command ran."""


class SandboxUnavailable(SandboxError):
    """This machine cannot make such a sandbox at all; the message says what to install or set."""


class Sandbox(Protocol):
    async def check(self) -> None:
        """Try it out once, before any job does: raises SandboxUnavailable."""

    async def run(self, task: SandboxTask, on_output: OnOutput) -> SandboxReport:
        """Run to the end and hand over output as it comes, both streams merged.

        When this returns, or raises, nothing of the command is alive any more. That includes a
        cancelled call, which kills everything at once.
        """

    def owner_uid(self, slot: int) -> int | None:
        """Who must own the workspace and the report directory; None: whoever runs the service."""

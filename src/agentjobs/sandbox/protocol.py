"""The Sandbox protocol: a place where one untrusted command runs on one workspace and then ends.

Knows nothing of jobs, git or agents' definitions; a container or a pod could implement it too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

JOB_FILE = "job.json"
REPORT_DIRECTORY = "report"
REPORT_FILE = "pull_request.md"

OnOutput = Callable[[bytes], None]


class SandboxTask(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `run_dir` holds `job.json` (read-only inside) and `report/` (writable)."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    workspace: Path
    run_dir: Path
    timeout_seconds: float
    slot: int
    read_only: tuple[Path, ...] = ()
    network: tuple[str, ...] = ()


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended; `exit_code` is None when the wall clock ended it."""

    exit_code: int | None
    timed_out: bool
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

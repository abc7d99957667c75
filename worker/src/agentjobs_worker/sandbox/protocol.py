"""The Sandbox protocol: runs one untrusted command on one workspace.

Knows nothing of jobs, git or agent definitions; a container or a pod could implement it too.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement

OnOutput = Callable[[bytes], None]
BeforeStart = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPort:
    """A port on the sandbox's loopback that the worker serves: the only way out of the sandbox.

    Either this process serves it with `protocol`, or `on_socket` gets the listening socket and owns
    it from then on. In the values of `environment`, `{address}` becomes the HOST:PORT that the
    agent connects to.
    """

    number: int
    protocol: Callable[[], asyncio.BaseProtocol] | None = None
    on_socket: Callable[[socket.socket], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class RunningSandbox(Protocol):
    """A way into the sandbox of a service, for whoever started it. Always `close` it.

    The methods raise OSError when the sandbox has ended.
    """

    async def listening_ports(self) -> list[int]:
        """The TCP ports of its loopback on which it listens: all, or one more than allowed."""

    def port(self, number: int) -> SandboxPort:
        """A port for another sandbox that leads to this one."""

    async def has_reported(self, name: str) -> bool:
        """Whether the command has created this file beside its report."""

    def close(self) -> None: ...


OnRunning = Callable[[RunningSandbox], None]
OnNote = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A directory inside the sandbox that begins as `lower`, which never changes.

    What the sandbox writes goes to `upper`.
    """

    # The root directory, the home directory or the workspace.
    inside: PurePosixPath
    lower: Path
    # Exists and is owned by `owner_uid`. For the workspace, it is the task's `workspace`.
    upper: Path
    # The user whose files in `lower` the agent owns inside; None: `lower` is shown as it is.
    lower_uid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """Whose run it is: a cluster shows it, and finds what a dead worker left by it.

    `step` is the part of the job, such as `agent` or `setup`. A build that several jobs wait for
    has no job.
    """

    organization_id: str
    step: str
    job_id: str = ""
    agent_id: str = ""
    # The fence of the job's claim; a later claim may end what this one started.
    fence: int = 0
    # The fence of the claim whose command this run only continues; 0 for a new command. If it is
    # gone, `run` raises SandboxLost.
    continues: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RootImage:
    """An image that the sandbox fetches itself, instead of a layer for the root directory.

    `reference` contains the digest. `registry_auth` is a Docker configuration file with the
    credential for its registry, or empty.
    """

    reference: str
    registry_auth: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTask:
    """One command. `run_dir` holds `job.json` (read-only inside), and `report/` and `artifacts/`
    (writable).

    `hosts` maps names to loopback addresses inside the sandbox, which its ports serve.
    `allows_setuid_bits`: the caller removes them before anyone else can reach the files.
    `on_running` gets a way into the sandbox before the command starts, and owns it.
    `on_note` gets sentences about what the sandbox waits for.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    workspace: Path
    run_dir: Path
    timeout_seconds: float
    slot: int
    limits: Limits = field(default_factory=Limits)
    read_only: tuple[Path, ...] = ()
    ports: tuple[SandboxPort, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    allows_setuid_bits: bool = False
    on_running: OnRunning | None = None
    on_note: OnNote | None = None
    owner: RunOwner | None = None
    image: RootImage | None = None
    placement: Placement = field(default_factory=Placement)


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended; `exit_code` is None when the wall clock or a limit ended it.

    `exceeded` is the limit as text: "4 GiB of memory".
    """

    exit_code: int | None
    timed_out: bool
    exceeded: str | None = None
    last_lines: str
    duration_ms: int

    def failure_reason(self, timeout_seconds: float) -> str | None:
        """Why the command did not succeed, as the end of a sentence; None if it did."""
        if self.timed_out:
            return f"did not finish within {timeout_seconds:g} seconds"
        if self.exceeded:
            return f"used more than {self.exceeded}"
        return f"failed with exit code {self.exit_code}" if self.exit_code else None


class SandboxError(Exception):
    """The sandbox did not start; the command did not run."""


class SandboxLost(SandboxError):
    """Something outside ended the sandbox, such as a node that failed: run the command again."""


class HostExhausted(SandboxLost):
    """The machine had no process, memory or descriptor left: run the command again later."""


class ImageUnavailable(SandboxError):
    """The image of the task cannot be fetched or started; the message says why."""


class UnusableResult(SandboxError):
    """What the agent left cannot be taken over; the argument is the end of the sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The agent's result cannot be used because {reason}.")


class SandboxUnavailable(SandboxError):
    """This machine cannot create such a sandbox; the message says what to install or set."""


class SandboxUnreachable(SandboxUnavailable):
    """Something outside of this machine is unavailable; it may recover by itself."""


class SandboxDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`problems` keep agents from running safely and name a fix; `notes` need no action.

    `environments` is empty if repositories cannot have one on this machine; `network` is for
    clusters only.
    """

    kind: str
    version: str = ""
    runs_as: str = ""
    seccomp: str = ""
    limits: str = ""
    environments: str = ""
    network: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Sandbox(Protocol):
    # Whether it fetches the `image` of a task itself, instead of having it as a layer.
    fetches_images: bool

    async def check(self) -> None:
        """Run a trial before any job does. Raises SandboxUnavailable."""

    async def check_layers(self, directory: Path) -> None:
        """Run a trial with a layer in this directory. Raises SandboxUnavailable with a fix."""

    async def run(
        self, task: SandboxTask, on_output: OnOutput, before_start: BeforeStart | None = None
    ) -> SandboxReport:
        """Run the command and pass on its output as it arrives, both streams merged.

        `before_start` runs while the sandbox is created. The command starts when it has returned;
        what it raises is raised here.

        When this returns or raises, no process of the command is alive. A cancelled call kills
        them all at once.
        """

    def prepare(self, task: SandboxTask) -> None:
        """Create a sandbox for the workspace and the run directory of `task` before they are used.

        `run` uses it for a task that only has another command, environment, timeout and ports.
        Raises SandboxError.
        """

    async def discard(self, workspace: Path) -> None:
        """End the sandbox that was prepared for this workspace, if `run` did not use it."""

    def owner_uid(self, slot: int) -> int | None:
        """Who must own the workspace and the writable directories; None: the service's user."""

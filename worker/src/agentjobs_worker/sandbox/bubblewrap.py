"""The bubblewrap sandbox, for root and for ordinary users.

As root, bwrap mounts without a user namespace and the agent runs under a separate uid, one per
slot. As an ordinary user, everything happens in a user namespace. `supervision` enforces limits.
"""

import asyncio
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from agentjobs_runtime.free_space import explain_write_failure
from agentjobs_runtime.protocol.shortage import is_shortage
from agentjobs_runtime.sandboxes.limits import NO_HOST_MEMORY, UNMEASURED
from agentjobs_worker.sandbox import mounts
from agentjobs_worker.sandbox.availability import (
    explain_architecture,
    explain_layer_failure,
    explain_namespace_failure,
    install_command,
)
from agentjobs_worker.sandbox.bwrap_command import BwrapCommand
from agentjobs_worker.sandbox.cgroup import Cgroups
from agentjobs_worker.sandbox.cgroup_delegation import (
    NotDelegated,
    claim,
    delegation_command,
    find_delegated_cgroup,
    has_cpu_controller,
)
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.environment import environment_inside
from agentjobs_worker.sandbox.host_shortage import HostShortage, reports_shortage
from agentjobs_worker.sandbox.launch import Launch
from agentjobs_worker.sandbox.layers import LayerMounts, root_layer
from agentjobs_worker.sandbox.prepared import PreparedSandbox, to_fixed_part
from agentjobs_worker.sandbox.protocol import (
    BeforeStart,
    HostExhausted,
    OnOutput,
    SandboxError,
    SandboxLost,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
)
from agentjobs_worker.sandbox.seccomp import filter_program
from agentjobs_worker.sandbox.start_script import start_commands
from agentjobs_worker.sandbox.supervision import SharedResources
from agentjobs_worker.sandbox.syscalls import architecture_of_this_machine
from agentjobs_worker.sandbox.trials import layered_trial, trial

log = logging.getLogger(__name__)

_NAMESPACES = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--hostname", "agentjobs"),
)
_OWN_USER_NAMESPACE = ("--unshare-user", "--disable-userns")
NO_CPU_CONTROLLER = "the cpu controller is not delegated, so agents only have a low priority"
_TRIAL_PREFIX = "agentjobs-check-"
_IMAGE_SHELL = "/bin/sh"
_TOOLS = ("bwrap", "setpriv", "sh")


class BubblewrapSandbox:
    fetches_images = False

    def __init__(
        self, uid_base: int, cgroups: Cgroups | None = None, *, disk_floor_bytes: int = 0
    ) -> None:
        self._uid_base = uid_base
        self._is_root = os.geteuid() == 0
        self._system = mounts.system_view()
        self._tools = {tool: shutil.which(tool) for tool in _TOOLS}
        uids = uid_base if self._is_root else None
        self._shared = SharedResources(cgroups, disk_floor_bytes, uids)
        self._seccomp = _seccomp(all_memory_is_counted=cgroups is not None)
        self._prepared: dict[Path, PreparedSandbox] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def owner_uid(self, slot: int) -> int | None:
        return self._uid_base + slot if self._is_root else None

    async def check(self) -> None:
        self._claim_cgroup()
        await self.probe()

    async def probe(self) -> None:
        """Run a command in a sandbox, without changing this process."""
        if not self._seccomp:
            raise SandboxUnavailable(explain_architecture())
        if missing := [tool for tool, path in self._tools.items() if path is None]:
            raise SandboxUnavailable(
                f"{', '.join(missing)} is not installed, and agents only run in a sandbox: "
                f"{install_command(as_root=self._is_root)}"
            )
        try:
            with tempfile.TemporaryDirectory(prefix=_TRIAL_PREFIX) as trial_directory:
                await self._run_trial(trial(Path(trial_directory)))
        except SandboxError as error:
            raise SandboxUnavailable(explain_namespace_failure(str(error), self._is_root)) from None

    async def check_layers(self, directory: Path) -> None:
        try:
            with tempfile.TemporaryDirectory(
                prefix=_TRIAL_PREFIX, dir=directory
            ) as trial_directory:
                owners = (self.owner_uid(0), self.owner_uid(1))
                await self._run_trial(layered_trial(Path(trial_directory), *owners))
        except SandboxError as error:
            reason = explain_layer_failure(str(error), directory, as_root=self._is_root)
            raise SandboxUnavailable(reason) from None
        except OSError as error:
            unwritable = f"{error.strerror}; make it writable for this user"
            reason = explain_write_failure(directory) or unwritable
            raise SandboxUnavailable(
                f"no environment can be kept in {directory}: {reason}"
            ) from None

    async def run(
        self, task: SandboxTask, on_output: OnOutput, before_start: BeforeStart | None = None
    ) -> SandboxReport:
        uid, _ = self._identity(task.slot)
        shortage = HostShortage(uid, task.limits.processes if self._is_root else 0)
        try:
            report = await self._run(task, on_output, before_start)
        except SandboxError as error:
            if _is_of_machine(error, task):
                raise HostExhausted(str(error)) from error
            raise
        if report.exit_code:
            # Its thread runs: the machine may have no other one for it.
            loop, executor = asyncio.get_running_loop(), self._shared.spawn_executor
            exit_code = 0 if self._shared.cgroups is not None else report.exit_code
            reason = await loop.run_in_executor(executor, shortage.reason, exit_code)
            if reason is not None:
                raise HostExhausted(reason)
        return report

    async def _run(
        self, task: SandboxTask, on_output: OnOutput, before_start: BeforeStart | None
    ) -> SandboxReport:
        commands = start_commands(task.argv, environment_inside(task))
        launch = self._take_prepared(task) or self._launch(task)
        try:
            launch.attach(task, commands, on_output)
            if before_start is not None:
                await before_start()
            launch.start_when_ready()
            started = time.monotonic()
            ended, _ = await asyncio.wait({launch.ended}, timeout=task.timeout_seconds)
        finally:
            await _end(launch)
        if launch.failure is not None:
            raise launch.failure
        last_lines = launch.tail.last_lines()
        if launch.exceeded in (NO_HOST_MEMORY, UNMEASURED):
            raise HostExhausted(launch.exceeded)
        if ended and launch.exceeded is None and not launch.exited_normally:
            if (launch.exit_code or 0) < 0:
                raise SandboxLost("another process killed the sandbox")
            raise SandboxError(_start_failure(task, last_lines))
        exited = ended and launch.exceeded is None
        return SandboxReport(
            exit_code=launch.exit_code if exited else None,
            timed_out=not ended and launch.exceeded is None,
            exceeded=launch.exceeded,
            last_lines=last_lines,
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def prepare(self, task: SandboxTask) -> None:
        fixed_part = to_fixed_part(task)
        self._prepared[task.workspace] = PreparedSandbox(fixed_part, self._launch(task))

    async def discard(self, workspace: Path) -> None:
        if (prepared := self._prepared.pop(workspace, None)) is not None:
            await _end(prepared.launch)

    def _take_prepared(self, task: SandboxTask) -> Launch | None:
        """None if none was prepared, if it has ended, or if the task needs another one."""
        prepared = self._prepared.pop(task.workspace, None)
        if prepared is None:
            return None
        if prepared.fixed_part == to_fixed_part(task) and not prepared.launch.ended.done():
            return prepared.launch
        ending = asyncio.create_task(_end(prepared.launch))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return None

    def _launch(self, task: SandboxTask) -> Launch:
        try:
            return Launch(self._command(task), task, self._shared)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the sandbox did not start: {error}") from error

    def _command(self, task: SandboxTask) -> BwrapCommand:
        uid, gid = self._identity(task.slot)
        if task.layers:
            return self._layered_command(task, uid, gid)
        options = [
            *_NAMESPACES,
            *(() if self._is_root else _OWN_USER_NAMESPACE),
            *self._system.options,
            *mounts.job_view(task, lambda path: path),
            "--clearenv",
        ]
        files = {**self._system.files, **mounts.identity_files(uid, gid, task.hosts)}
        # The shell's commands come over its standard input.
        command = [*(self._drop_to(uid) if self._is_root else ()), self._tool("sh")]
        return BwrapCommand(self._tool("bwrap"), options, files, command, self._filter(task))

    def _layered_command(self, task: SandboxTask, uid: int, gid: int) -> BwrapCommand:
        """bwrap starts as the agent's user, so nothing in an image has to drop privileges."""
        layers = LayerMounts(task, uid, gid)
        root = root_layer(task)
        if root is None:
            system = self._system.options
            files = {**self._system.files, **mounts.identity_files(uid, gid, task.hosts)}
        else:
            system, files = mounts.image_view(layers.source(root.upper)), {}
        options = [
            *(*_NAMESPACES, *_OWN_USER_NAMESPACE, *system),
            *mounts.job_view(task, layers.source),
            "--clearenv",
        ]
        command = [self._tool("sh") if root is None else _IMAGE_SHELL]
        bwrap = self._tool("bwrap")
        return BwrapCommand(bwrap, options, files, command, self._filter(task), layers)

    def _filter(self, task: SandboxTask) -> bytes:
        if not task.allows_setuid_bits:
            return self._seccomp
        is_counted = self._shared.cgroups is not None
        return _seccomp(all_memory_is_counted=is_counted, allows_setuid_bits=True)

    def _identity(self, slot: int) -> tuple[int, int]:
        uid = self.owner_uid(slot)
        return (os.geteuid(), os.getegid()) if uid is None else (uid, uid)

    def _drop_to(self, uid: int) -> list[str]:
        # Drop privileges inside bwrap, which still has to see sources below 0700 directories.
        return [
            *(self._tool("setpriv"), "--reuid", str(uid), "--regid", str(uid), "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"),
        ]

    def _tool(self, name: str) -> str:
        path = self._tools[name]
        if path is None:
            raise SandboxUnavailable(f"{name} is not installed")
        return path

    def _claim_cgroup(self) -> None:
        try:
            root = find_delegated_cgroup()
            self._shared.cgroups = claim(root)
        except NotDelegated as why:
            log.warning(
                "rlimits and a watchdog enforce the limits of agents, not the kernel (%s): %s",
                why,
                delegation_command(),
            )
            return
        log.info("the cgroup %s enforces the limits of agents", root)
        if not has_cpu_controller(root):
            log.warning("limit_cpus has no effect: %s", NO_CPU_CONTROLLER)
        self._seccomp = _seccomp(all_memory_is_counted=True)

    async def _run_trial(self, task: SandboxTask) -> None:
        outcome = await self.run(task, _discard)
        if outcome.exit_code != 0:
            raise SandboxError(outcome.last_lines or "the trial run did not finish")


async def _end(launch: Launch) -> None:
    launch.kill()
    try:
        await wait_despite_cancellation(launch.ended)
    finally:
        launch.close()


def _start_failure(task: SandboxTask, message: str) -> str:
    if root_layer(task) is not None and f"execvp {_IMAGE_SHELL}" in message:
        return (
            f"the image has no {_IMAGE_SHELL} that runs on this machine ({message}): use an image "
            "with a shell, made for this architecture"
        )
    return message or "bwrap ended without a reason"


def _is_of_machine(error: SandboxError, task: SandboxTask) -> bool:
    if isinstance(error, SandboxLost):
        return False
    # What the shell of an image writes is not believed.
    is_reported = root_layer(task) is None and reports_shortage(str(error))
    return is_reported or (error.__cause__ is not None and is_shortage(error.__cause__))


def _seccomp(*, all_memory_is_counted: bool, allows_setuid_bits: bool = False) -> bytes:
    """Empty on an architecture that `syscalls` does not cover, where `probe` raises."""
    architecture = architecture_of_this_machine()
    if architecture is None:
        return b""
    return filter_program(
        architecture,
        all_memory_is_counted=all_memory_is_counted,
        allows_setuid_bits=allows_setuid_bits,
    )


def _discard(_chunk: bytes) -> None:
    pass

"""The sandbox made with bubblewrap, as root and as an ordinary user.

As root bwrap mounts without a user namespace and the agent is another uid, one per slot; as a
user everything happens in a user namespace. What is kept on it while it runs is not known here.
"""

import asyncio
import logging
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

from agentjobs.sandbox import mounts
from agentjobs.sandbox.availability import install_command, why_namespaces_fail
from agentjobs.sandbox.bwrap_command import BwrapCommand
from agentjobs.sandbox.cgroup import Cgroups, NotDelegated, claim, delegated
from agentjobs.sandbox.child import outlast
from agentjobs.sandbox.environment import agent_environment
from agentjobs.sandbox.launch import GATE, Launch
from agentjobs.sandbox.protocol import (
    REPORT_DIRECTORY,
    Door,
    OnOutput,
    SandboxError,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
)
from agentjobs.sandbox.seccomp import filter_program
from agentjobs.sandbox.supervision import Keepers
from agentjobs.sandbox.syscalls import ARCHITECTURES

log = logging.getLogger(__name__)

_NAMESPACES = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--hostname", "agentjobs"),
)
_OWN_USER_NAMESPACE = ("--unshare-user", "--disable-userns")
NO_SECCOMP = f"it is written for {' and '.join(ARCHITECTURES)}"
_TOOLS = ("bwrap", "setpriv", "sh")


class BubblewrapSandbox:
    def __init__(self, uid_base: int, cgroups: Cgroups | None = None) -> None:
        self._uid_base = uid_base
        self._is_root = os.geteuid() == 0
        self._system = mounts.system_view()
        self._tools = {tool: shutil.which(tool) for tool in _TOOLS}
        self._keepers = Keepers(cgroups)
        self._seccomp = _seccomp(counts_all_memory=cgroups is not None)

    def owner_uid(self, slot: int) -> int | None:
        return self._uid_base + slot if self._is_root else None

    async def check(self) -> None:
        self._take_over_cgroup()
        if not self._seccomp:
            log.warning("agents run without a filter on system calls: %s", NO_SECCOMP)
        await self.try_out()

    async def try_out(self) -> None:
        """The part of `check` that leaves this process as it is."""
        if missing := [tool for tool, path in self._tools.items() if path is None]:
            raise SandboxUnavailable(
                f"{', '.join(missing)} is not installed, and agents run nowhere else: "
                f"{install_command(as_root=self._is_root)}"
            )
        try:
            await self._run_trial()
        except SandboxError as error:
            raise SandboxUnavailable(why_namespaces_fail(str(error), self._is_root)) from None

    async def run(self, task: SandboxTask, on_output: OnOutput) -> SandboxReport:
        started = time.monotonic()
        launch = self._launch(task, on_output)
        try:
            ended, _ = await asyncio.wait({launch.gone}, timeout=task.timeout_seconds)
        finally:
            launch.kill()
            try:
                await outlast(launch.gone)
            finally:
                launch.close()
        if launch.failure is not None:
            raise launch.failure
        last_lines = launch.tail.last_lines()
        if ended and launch.exceeded is None and not launch.ended_by_itself:
            raise SandboxError(last_lines or "the sandbox was killed from outside")
        on_its_own = ended and launch.exceeded is None
        return SandboxReport(
            exit_code=launch.exit_code if on_its_own else None,
            timed_out=not ended and launch.exceeded is None,
            exceeded=launch.exceeded,
            last_lines=last_lines,
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def _launch(self, task: SandboxTask, on_output: OnOutput) -> Launch:
        try:
            return Launch(self._command(task), task, self._keepers, on_output)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the sandbox could not be started: {error}") from error

    def _command(self, task: SandboxTask) -> BwrapCommand:
        uid, gid = self._identity(task.slot)
        variables = agent_environment(
            task,
            path=mounts.PATH,
            home=mounts.HOME,
            temporary=mounts.TEMPORARY,
            run_dir=mounts.RUN_DIRECTORY,
            address_of=_address_inside,
        )
        options = [
            *_NAMESPACES,
            *(() if self._is_root else _OWN_USER_NAMESPACE),
            *self._system.options,
            *mounts.job_view(task),
            *mounts.environment(variables),
        ]
        files = {**self._system.files, **mounts.identity_files(uid, gid, task.hosts)}
        launcher = f"{task.limits.shell_commands()}; {GATE}"
        command = [
            *(self._drop_to(uid) if self._is_root else ()),
            *(self._tool("sh"), "-c", launcher, "agentjobs", *task.argv),
        ]
        return BwrapCommand(self._tool("bwrap"), options, files, command, self._seccomp)

    def _identity(self, slot: int) -> tuple[int, int]:
        uid = self.owner_uid(slot)
        return (os.geteuid(), os.getegid()) if uid is None else (uid, uid)

    def _drop_to(self, uid: int) -> list[str]:
        # Inside and not before: bwrap still has to see sources below 0700 directories.
        return [
            *(self._tool("setpriv"), "--reuid", str(uid), "--regid", str(uid), "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"),
        ]

    def _tool(self, name: str) -> str:
        path = self._tools[name]
        if path is None:
            raise SandboxUnavailable(f"{name} is not installed")
        return path

    def _take_over_cgroup(self) -> None:
        try:
            self._keepers.cgroups = claim(delegated())
        except NotDelegated as why:
            log.info("limits of agents are kept by rlimits and a watchdog: %s", why)
        else:
            log.info("limits of agents are kept by cgroup v2 at %s", self._keepers.cgroups.root)
            self._seccomp = _seccomp(counts_all_memory=True)

    async def _run_trial(self) -> None:
        with tempfile.TemporaryDirectory(prefix="agentjobs-check-") as directory:
            outcome = await self.run(_trial(Path(directory)), _ignore)
        if outcome.exit_code != 0:
            raise SandboxError(outcome.last_lines or "a trial run did not end")


def _trial(directory: Path) -> SandboxTask:
    workspace = directory / "workspace"
    run_dir = directory / "run"
    workspace.mkdir()
    (run_dir / REPORT_DIRECTORY).mkdir(parents=True)
    return SandboxTask(
        argv=("true",),
        environment={},
        workspace=workspace,
        run_dir=run_dir,
        timeout_seconds=10,
        slot=0,
    )


def _address_inside(door: Door) -> str:
    return f"127.0.0.1:{door.port}"


def _seccomp(*, counts_all_memory: bool) -> bytes:
    """Empty on an architecture whose system calls nobody has written down yet."""
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        return b""
    return filter_program(architecture, counts_all_memory=counts_all_memory)


def _ignore(_chunk: bytes) -> None:
    pass

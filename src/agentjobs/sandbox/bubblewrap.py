"""The sandbox made with bubblewrap, as root and as an ordinary user.

As root bwrap mounts without a user namespace and the agent is another uid, one per slot; as a
user everything happens in a user namespace. Egress, seccomp and cgroups are not known here.
"""

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

from agentjobs.sandbox import mounts
from agentjobs.sandbox.availability import install_command, why_namespaces_fail
from agentjobs.sandbox.bwrap_command import BwrapCommand
from agentjobs.sandbox.child import outlast
from agentjobs.sandbox.environment import agent_environment
from agentjobs.sandbox.launch import GATE, Launch
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import (
    REPORT_DIRECTORY,
    OnOutput,
    SandboxError,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
)

NO_NETWORK_YET = (
    b"[agentjobs] the agent's definition asks for network access, which is not available yet: "
    b"it runs without\n"
)
_NAMESPACES = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--hostname", "agentjobs"),
)
_OWN_USER_NAMESPACE = ("--unshare-user", "--disable-userns")
_TOOLS = ("bwrap", "setpriv", "sh")


class BubblewrapSandbox:
    def __init__(self, uid_base: int, limits: Limits | None = None) -> None:
        self._uid_base = uid_base
        self._limits = limits or Limits()
        self._is_root = os.geteuid() == 0
        self._system = mounts.system_view()
        self._tools = {tool: shutil.which(tool) for tool in _TOOLS}

    def owner_uid(self, slot: int) -> int | None:
        return self._uid_base + slot if self._is_root else None

    async def check(self) -> None:
        if missing := [tool for tool, path in self._tools.items() if path is None]:
            raise SandboxUnavailable(
                f"{', '.join(missing)} is not installed, and agents run nowhere else: "
                f"{install_command(as_root=self._is_root)}"
            )
        try:
            await self._try_out()
        except SandboxError as error:
            raise SandboxUnavailable(why_namespaces_fail(str(error), self._is_root)) from None

    async def run(self, task: SandboxTask, on_output: OnOutput) -> SandboxReport:
        started = time.monotonic()
        if task.network:
            on_output(NO_NETWORK_YET)
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
        if ended and (not launch.is_up or launch.exit_code is None or launch.exit_code < 0):
            raise SandboxError(last_lines or "the sandbox was killed from outside")
        return SandboxReport(
            exit_code=launch.exit_code if ended else None,
            timed_out=not ended,
            last_lines=last_lines,
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def _launch(self, task: SandboxTask, on_output: OnOutput) -> Launch:
        try:
            return Launch(self._command(task), on_output)
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
        )
        options = [
            *_NAMESPACES,
            *(() if self._is_root else _OWN_USER_NAMESPACE),
            *self._system.options,
            *mounts.job_view(task, self._limits),
            *mounts.environment(variables),
        ]
        files = {**self._system.files, **mounts.identity_files(uid, gid)}
        launcher = f"{self._limits.shell_commands()}; {GATE}"
        command = [
            *(self._drop_to(uid) if self._is_root else ()),
            *(self._tool("sh"), "-c", launcher, "agentjobs", *task.argv),
        ]
        return BwrapCommand(self._tool("bwrap"), options, files, command)

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

    async def _try_out(self) -> None:
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


def _ignore(_chunk: bytes) -> None:
    pass

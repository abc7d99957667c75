"""Runs skopeo and umoci in sandboxes: what registries and layers contain meets its limits."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.sandboxes.directories import WRITABLE_DIRECTORIES
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.sandbox.certificates import with_certificates
from agentjobs_worker.sandbox.disk import WHILE_NEARLY_FULL
from agentjobs_worker.sandbox.protocol import (
    OnOutput,
    Sandbox,
    SandboxPort,
    SandboxReport,
    SandboxTask,
)
from agentjobs_worker.workspace.session import Session

TOOLS = ("skopeo", "umoci")
PRIVATE_DIRECTORY = 0o700
_READ_ONLY = 0o400
_NO_SPACE = "no space left on device"


def missing_tools() -> str | None:
    """What to install before this machine can use images; None if nothing is missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not missing:
        return None
    sudo = "" if os.geteuid() == 0 else "sudo "
    return (
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed on this "
        f"worker: run `{sudo}apt-get install -y {' '.join(missing)}`"
    )


class ToolSandbox:
    """`slot` is used by nothing else, so its uid owns every image."""

    def __init__(
        self, sandbox: Sandbox, session: Session, slot: int, certificates: Path | None = None
    ) -> None:
        self._sandbox = sandbox
        self._session = session
        self._slot = slot
        self._certificates = certificates

    @property
    def owner_uid(self) -> int | None:
        return self._sandbox.owner_uid(self._slot)

    def create_directory(self, path: Path) -> None:
        """A directory that a tool can write to."""
        path.mkdir(mode=PRIVATE_DIRECTORY)
        self._give(path)

    @contextlib.asynccontextmanager
    async def work_directory(self) -> AsyncIterator[Path]:
        """An empty directory for unfinished work. What is not moved out of it is removed."""
        self._session.open()
        directory = self._session.new_directory()
        try:
            yield directory
        finally:
            await run_in_thread(remove, directory)

    async def run(
        self,
        script: str,
        arguments: Sequence[str],
        workspace: Path,
        *,
        limits: Limits,
        timeout_seconds: float,
        on_output: OnOutput,
        files: Mapping[str, bytes] | None = None,
        read_only: Sequence[Path] = (),
        ports: tuple[SandboxPort, ...] = (),
        allows_setuid_bits: bool = False,
    ) -> SandboxReport:
        """`$FILES` is the directory with `files`, private to the tool. Raises ImageError."""
        # Another sandbox has the programs of its own image.
        if not self._sandbox.fetches_images and (reason := missing_tools()) is not None:
            raise ImageError(f"{reason}.")
        async with self.work_directory() as run_dir:
            self._write_files(run_dir, files or {})
            task = SandboxTask(
                argv=("sh", "-c", f'FILES="${{AGENTJOBS_JOB%/*}}"; {script}', "sh", *arguments),
                environment={},
                workspace=workspace,
                run_dir=run_dir,
                timeout_seconds=timeout_seconds,
                slot=self._slot,
                limits=limits,
                read_only=(*read_only, *_tool_paths()),
                ports=ports,
                allows_setuid_bits=allows_setuid_bits,
            )
            task = with_certificates(task, self._certificates)
            report = await self._sandbox.run(task, on_output)
        if is_disk_full(report):
            raise RegistryUnavailable("The disk of this worker is nearly full.")
        return report

    def _write_files(self, run_dir: Path, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            descriptor = os.open(run_dir / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READ_ONLY)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            self._give(run_dir / name)
        for name in WRITABLE_DIRECTORIES:
            self.create_directory(run_dir / name)
        self._give(run_dir)

    def _give(self, path: Path) -> None:
        if (uid := self.owner_uid) is not None:
            os.chown(path, uid, uid)


def is_disk_full(report: SandboxReport) -> bool:
    """Whether the worker is to blame, not the image."""
    if report.exceeded is not None:
        return report.exceeded.endswith(WHILE_NEARLY_FULL)
    return report.exit_code != 0 and _NO_SPACE in report.last_lines


def _tool_paths() -> Iterator[Path]:
    return (Path(path) for tool in TOOLS if (path := shutil.which(tool)))

"""Runs the setup of an environment in a sandbox, and keeps what it left as a snapshot."""

import dataclasses
import errno
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.sandboxes.directories import WRITABLE_DIRECTORIES
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.build_log import BuildLog
from agentjobs_worker.environments.ignored_files import move_ignored_files
from agentjobs_worker.environments.layers import home_layer, root_image, root_layers
from agentjobs_worker.environments.secret_search import SearchFailed, find_secret
from agentjobs_worker.environments.snapshots import HOME, WORKSPACE
from agentjobs_worker.sandbox.certificates import with_certificates
from agentjobs_worker.sandbox.protocol import RunOwner, Sandbox, SandboxPort, SandboxTask
from agentjobs_worker.workspace.checkout import Checkout, Workspaces

_ERRORS_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetupTask:
    """`secrets` are variables that only setup gets; `ports` lead to the hosts it may reach;
    `registries` are for a sandbox that fetches the image."""

    organization_id: str
    repo_id: str
    commit: str
    command: str
    image: Image | None
    variables: Mapping[str, str]
    secrets: Mapping[str, str]
    ports: tuple[SandboxPort, ...]
    hosts: Mapping[str, str]
    timeout_seconds: float
    slot: int
    limits: Limits
    registries: Sequence[RegistryCredential] = ()


class SetupRunner:
    """`certificates` is the operator's bundle, if there is one."""

    def __init__(self, sandbox: Sandbox, workspaces: Workspaces, certificates: Path | None) -> None:
        self._sandbox = sandbox
        self._workspaces = workspaces
        self._certificates = certificates

    def owner_uid(self, slot: int) -> int | None:
        return self._sandbox.owner_uid(slot)

    async def run(self, task: SetupTask, mirror: Path, directory: Path, log: BuildLog) -> int:
        """Fill `home` and `workspace` in the empty directory; returns the milliseconds it took.

        Raises EnvironmentFailed, SandboxError, RepoUnavailable and OSError.
        """
        uid = self._sandbox.owner_uid(task.slot)
        for name in (HOME, WORKSPACE):
            create_owned_directory(directory / name, uid)
        if not task.command:
            return 0
        async with self._workspaces.checkout(
            task.repo_id,
            task.commit,
            owner_uid=uid,
            organization_id=task.organization_id,
            is_reusable=False,
        ) as checkout:
            milliseconds = await self._run_command(task, checkout, directory, log)
            await _keep_ignored_files(mirror, checkout, directory / WORKSPACE)
        await _check_secrets(directory, list(task.secrets.values()))
        return milliseconds

    async def _run_command(
        self, task: SetupTask, checkout: Checkout, directory: Path, log: BuildLog
    ) -> int:
        async with _scratch(directory, self._sandbox.owner_uid(task.slot)) as scratch:
            sandbox_task = SandboxTask(
                argv=("sh", "-c", task.command),
                environment={
                    **(task.image.variables if task.image else {}),
                    **task.variables,
                    **task.secrets,
                },
                workspace=checkout.tree,
                run_dir=scratch / "run",
                timeout_seconds=task.timeout_seconds,
                slot=task.slot,
                limits=task.limits,
                owner=RunOwner(organization_id=task.organization_id, step="setup"),
                on_note=log.note,
                ports=task.ports,
                hosts=task.hosts,
                layers=(
                    *root_layers(task.image, scratch / "root"),
                    home_layer(scratch / "empty", directory / HOME),
                ),
                image=root_image(task.image, task.registries),
            )
            report = await self._sandbox.run(
                with_certificates(sandbox_task, self._certificates), log.write
            )
            log.end_output()
        if report.timed_out:
            reason = f"did not finish within {task.timeout_seconds:g} seconds"
        elif report.exceeded:
            reason = f"used more than {report.exceeded}"
        elif report.exit_code:
            reason = f"failed with exit code {report.exit_code}"
        else:
            return report.duration_ms
        raise EnvironmentFailed(f"The setup {reason}. Its last lines:\n{log.last_lines}")


@asynccontextmanager
async def _scratch(directory: Path, uid: int | None) -> AsyncIterator[Path]:
    """A directory beside the snapshot, removed before the snapshot is complete."""
    scratch = directory / "scratch"
    scratch.mkdir(mode=0o755)
    (scratch / "run").mkdir(mode=0o755)
    for name in WRITABLE_DIRECTORIES:
        create_owned_directory(scratch / "run" / name, uid)
    create_owned_directory(scratch / "root", uid)
    (scratch / "empty").mkdir(mode=0o755)
    try:
        yield scratch
    finally:
        await run_in_thread(remove, scratch)


async def _keep_ignored_files(mirror: Path, checkout: Checkout, target: Path) -> None:
    try:
        await move_ignored_files(mirror, checkout, target)
    except OSError as error:
        if error.errno in _ERRORS_OF_THE_DISK:
            raise
        raise EnvironmentFailed(
            f"The files that setup left in the workspace cannot be kept: {error.strerror}."
        ) from error


async def _check_secrets(directory: Path, secrets: Sequence[str]) -> None:
    try:
        path = await find_secret([directory / HOME, directory / WORKSPACE], secrets)
    except SearchFailed as error:
        raise EnvironmentFailed(f"The environment is not kept: {error}.") from None
    if path is not None:
        raise EnvironmentFailed(
            f"The setup left a secret in the file {path}, which agents could read. Delete the file"
            " at the end of setup, or use a secret with `--for proxy`."
        )


def create_owned_directory(path: Path, uid: int | None) -> None:
    path.mkdir(mode=0o755, exist_ok=True)
    if uid is not None:
        os.chown(path, uid, uid)

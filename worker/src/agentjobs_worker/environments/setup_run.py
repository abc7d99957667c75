"""Runs the setup of an environment in a sandbox, and keeps what it left as a snapshot."""

import errno
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs_runtime.environments.images.model import Image
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.sandboxes.directories import WRITABLE_DIRECTORIES
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.build_log import BuildLog
from agentjobs_worker.environments.build_task import BuildTask, BuildTools
from agentjobs_worker.environments.ignored_files import move_ignored_files
from agentjobs_worker.environments.layers import home_layer, root_image, root_layers
from agentjobs_worker.environments.network import open_setup_network
from agentjobs_worker.environments.secret_search import SearchFailed, find_secret
from agentjobs_worker.environments.snapshots import HOME, WORKSPACE
from agentjobs_worker.sandbox.certificates import with_certificates
from agentjobs_worker.sandbox.protocol import RunOwner, SandboxReport, SandboxTask
from agentjobs_worker.workspace.checkout import Checkout

_ERRORS_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


async def run_setup(
    tools: BuildTools,
    task: BuildTask,
    image: Image | None,
    directory: Path,
    log: BuildLog,
    slot: int,
) -> int:
    """Fill `home` and `workspace` in the empty directory; returns the milliseconds it took.

    Raises EnvironmentFailed, SandboxError, RepoUnavailable and OSError.
    """
    uid = tools.sandbox.owner_uid(slot)
    for name in (HOME, WORKSPACE):
        create_owned_directory(directory / name, uid)
    if not task.request.definition.setup:
        return 0
    log.note(f"setup of commit {task.commit[:12]}")
    async with tools.workspaces.checkout(
        task.repo_id,
        task.commit,
        owner_uid=uid,
        organization_id=task.organization_id,
        is_reusable=False,
    ) as checkout:
        report = await _run_command(tools, task, image, checkout, directory, log, slot)
        if reason := report.failure_reason(tools.setup_seconds):
            raise EnvironmentFailed(f"The setup {reason}. Its last lines:\n{log.last_lines}")
        mirror = tools.mirrors.path(task.repo_id)
        await _keep_ignored_files(mirror, checkout, directory / WORKSPACE)
    await _check_secrets(directory, list(task.access.secrets.values()))
    return report.duration_ms


async def _run_command(
    tools: BuildTools,
    task: BuildTask,
    image: Image | None,
    checkout: Checkout,
    directory: Path,
    log: BuildLog,
    slot: int,
) -> SandboxReport:
    def note(line: str) -> None:
        log.note(f"network: {line}")

    definition, access = task.request.definition, task.access
    async with (
        open_setup_network(access, tools.allowed, tools.ca_file, note) as network,
        _scratch(directory, tools.sandbox.owner_uid(slot)) as scratch,
    ):
        sandbox_task = SandboxTask(
            argv=("sh", "-c", definition.setup),
            environment={
                **(image.variables if image else {}),
                **definition.variables,
                **access.secrets,
            },
            workspace=checkout.tree,
            run_dir=scratch / "run",
            timeout_seconds=tools.setup_seconds,
            slot=slot,
            limits=tools.limits,
            owner=RunOwner(organization_id=task.organization_id, step="setup"),
            on_note=log.note,
            ports=network.ports,
            hosts=network.hosts,
            layers=(
                *root_layers(image, scratch / "root"),
                home_layer(scratch / "empty", directory / HOME),
            ),
            image=root_image(image, access.registries),
        )
        sandbox_task = with_certificates(sandbox_task, tools.certificates)
        report = await tools.sandbox.run(sandbox_task, log.write)
        log.end_output()
    return report


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

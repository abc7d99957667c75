"""One build of an environment on this worker: fetches its images, runs setup, keeps a snapshot."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import Image
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import Finished
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.threads import run_in_thread
from agentjobs_runtime.tracing.spans import traced
from agentjobs_worker.environments.build_log import BuildLog
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.network import open_setup_network
from agentjobs_worker.environments.setup_run import SetupRunner, SetupTask
from agentjobs_worker.environments.snapshots import HOME, WORKSPACE, Snapshot, Snapshots
from agentjobs_worker.sandbox.disk import measure_tree
from agentjobs_worker.workspace.session import Session


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask:
    """The mirror of the repository has the commit."""

    build_id: str
    organization_id: str
    repo_id: str
    commit: str
    request: EnvironmentRequest
    access: SetupAccess


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTools:
    """Built once per worker. `slots` are sandbox slots for setup alone, one for each place."""

    session: Session
    mirrors: Mirrors
    images: Images
    snapshots: Snapshots
    setup: SetupRunner
    allowed: AllowList
    ca_file: str
    slots: Sequence[int]
    setup_seconds: float
    limits: Limits


@traced("build environment")
async def build_environment(
    tools: BuildTools, task: BuildTask, log: BuildLog, slot: int
) -> Finished:
    """Raises EnvironmentFailed, RegistryUnavailable, SandboxError, RepoUnavailable and OSError."""
    images = await fetch_images(tools.images, task, log)
    with contextlib.ExitStack() as held:
        for image in images.values():
            held.enter_context(tools.images.hold(image.digest))
        async with _new_directory(tools.session) as directory:
            snapshot, setup_ms = await _run_setup(tools, task, images, directory, log, slot)
            tools.snapshots.add(directory, snapshot)
    return Finished(
        key=snapshot.key,
        image_digest=snapshot.images.get(task.request.definition.image, ""),
        size_bytes=snapshot.size_bytes,
        setup_ms=setup_ms,
    )


async def fetch_images(images: Images, task: BuildTask, log: BuildLog) -> dict[str, Image]:
    """The images by reference. Raises EnvironmentFailed and RegistryUnavailable."""
    fetched = {}
    for reference in task.request.images:
        log.note(f"image {reference}")
        started = time.monotonic()
        try:
            image = await images.fetch(
                task.organization_id, reference, task.access.registries, log.write
            )
        except RegistryUnavailable:
            raise
        except ImageError as error:
            raise EnvironmentFailed(str(error)) from None
        log.note(f"image {image.digest}, after {time.monotonic() - started:.1f} s")
        fetched[reference] = image
    return fetched


async def _run_setup(
    tools: BuildTools,
    task: BuildTask,
    images: dict[str, Image],
    directory: Path,
    log: BuildLog,
    slot: int,
) -> tuple[Snapshot, int]:
    definition = task.request.definition
    if definition.setup:
        log.note(f"setup of commit {task.commit[:12]}")

    def note(line: str) -> None:
        log.note(f"network: {line}")

    async with open_setup_network(task.access, tools.allowed, tools.ca_file, note) as network:
        setup = SetupTask(
            organization_id=task.organization_id,
            repo_id=task.repo_id,
            commit=task.commit,
            command=definition.setup,
            image=images.get(definition.image),
            variables=definition.variables,
            secrets=task.access.secrets,
            ports=network.ports,
            hosts=network.hosts,
            timeout_seconds=tools.setup_seconds,
            slot=slot,
            limits=tools.limits,
            registries=task.access.registries,
        )
        mirror = tools.mirrors.path(task.repo_id)
        with tools.mirrors.in_use(task.repo_id):
            setup_ms = await tools.setup.run(setup, mirror, directory, log)
    sizes = [await run_in_thread(measure_tree, directory / name) for name in (HOME, WORKSPACE)]
    digests = {reference: image.digest for reference, image in images.items()}
    snapshot = Snapshot(
        build_id=task.build_id,
        organization_id=task.organization_id,
        repo_id=task.repo_id,
        request_key=task.request.request_key,
        key=task.request.key(digests),
        images=digests,
        owner_uid=tools.setup.owner_uid(slot),
        size_bytes=sum(sizes),
        created_at=now_ms(),
    )
    return snapshot, setup_ms


@contextlib.asynccontextmanager
async def _new_directory(session: Session) -> AsyncIterator[Path]:
    """Removed at exit, unless it became a snapshot."""
    session.open()
    directory = session.new_directory()
    try:
        yield directory
    finally:
        if directory.exists():
            await asyncio.shield(run_in_thread(remove, directory))

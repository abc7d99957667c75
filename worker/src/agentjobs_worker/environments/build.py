"""One build of an environment on this worker: fetches its images, runs setup, keeps a snapshot."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_runtime.environments.records import Finished
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.threads import run_in_thread
from agentjobs_runtime.tracing.spans import traced
from agentjobs_worker.environments.build_log import BuildLog
from agentjobs_worker.environments.build_task import BuildTask, BuildTools
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.setup_run import run_setup
from agentjobs_worker.environments.snapshots import HOME, WORKSPACE, Snapshot
from agentjobs_worker.sandbox.disk import measure_tree
from agentjobs_worker.sandbox.protocol import OnOutput
from agentjobs_worker.workspace.session import Session


@traced("build environment")
async def build_environment(
    tools: BuildTools, task: BuildTask, log: BuildLog, slot: int
) -> Finished:
    """Raises EnvironmentFailed, RegistryUnavailable, SandboxError, RepoUnavailable and OSError."""
    images = await fetch_images(
        tools.images,
        task.organization_id,
        task.request.images,
        task.access.registries,
        log.write,
        log.note,
    )
    image = images.get(task.request.definition.image)
    digests = {reference: image.digest for reference, image in images.items()}
    with contextlib.ExitStack() as held:
        for digest in digests.values():
            held.enter_context(tools.images.hold(digest))
        async with _new_directory(tools.session) as directory:
            setup_ms = await run_setup(tools, task, image, directory, log, slot)
            trees = [directory / name for name in (HOME, WORKSPACE)]
            snapshot = Snapshot(
                build_id=task.build_id,
                organization_id=task.organization_id,
                repo_id=task.repo_id,
                request_key=task.request.request_key,
                key=task.request.key(digests),
                images=digests,
                owner_uid=tools.sandbox.owner_uid(slot),
                size_bytes=sum([await run_in_thread(measure_tree, tree) for tree in trees]),
                created_at=now_ms(),
            )
            tools.snapshots.add(directory, snapshot)
    return Finished(
        key=snapshot.key,
        image_digest="" if image is None else image.digest,
        size_bytes=snapshot.size_bytes,
        setup_ms=setup_ms,
    )


async def fetch_images(
    images: Images,
    organization_id: str,
    references: Iterable[str],
    credentials: Sequence[RegistryCredential],
    on_output: OnOutput,
    on_note: Callable[[str], None],
) -> dict[str, Image]:
    """The images by reference. Raises EnvironmentFailed and RegistryUnavailable."""
    fetched = {}
    for reference in references:
        on_note(f"image {reference}")
        started = time.monotonic()
        try:
            image = await images.fetch(organization_id, reference, credentials, on_output)
        except RegistryUnavailable:
            raise
        except ImageError as error:
            raise EnvironmentFailed(str(error)) from None
        on_note(f"image {image.digest}, after {time.monotonic() - started:.1f} s")
        fetched[reference] = image
    return fetched


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

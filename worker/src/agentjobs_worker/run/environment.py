"""Chooses the environment of a run before its checkout: a snapshot, or a build to wait for."""

import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TypeVar

from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.images.errors import RegistryUnavailable
from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import (
    OUTAGE_HOLD_MS,
    EnvironmentView,
    NewBuild,
    hold_key,
)
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import retry_within_lease
from agentjobs_runtime.protocol.messages import RecordEnvironment
from agentjobs_runtime.protocol.outcomes import (
    MAX_OUTAGE_MS,
    EnvironmentFailed,
    EnvironmentHold,
    JobFailed,
)
from agentjobs_worker.environments.build import fetch_images
from agentjobs_worker.environments.build_task import BuildTask
from agentjobs_worker.environments.choice import (
    EnvironmentChoice,
    EnvironmentNotReady,
    hold_images,
)
from agentjobs_worker.environments.snapshots import StoredSnapshot
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.link.environments import (
    RequestedEnvironment,
    builds,
    load_setup_access,
    open_proxy_secrets,
    open_registry_credentials,
)
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import RunPlan

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """`runs_setup`: there is no snapshot, so setup runs for this job alone, without network.
    `registries` are for a sandbox that fetches the images."""

    definition: EnvironmentDefinition = dataclasses.field(default_factory=EnvironmentDefinition)
    images: Mapping[str, Image] = dataclasses.field(default_factory=dict)
    stored: StoredSnapshot | None = None
    runs_setup: bool = False
    brokered: Sequence[BrokeredHost] = ()
    registries: Sequence[RegistryCredential] = dataclasses.field(default=(), repr=False)
    # Whether the agent may run without it, if its program is not in the image.
    is_devcontainer: bool = False

    @property
    def image(self) -> Image | None:
        return self.images.get(self.definition.image)

    @property
    def has_layers(self) -> bool:
        return self.image is not None or self.stored is not None or self.runs_setup


NO_ENVIRONMENT = RunEnvironment()


@contextlib.asynccontextmanager
async def choose_environment(
    run: RunContext,
    plan: RunPlan,
    base: str,
    requested: RequestedEnvironment,
) -> AsyncIterator[RunEnvironment]:
    """Its files are kept until the exit. Raises EnvironmentNotReady and EnvironmentFailed."""
    if not plan.uses_environment:
        yield NO_ENVIRONMENT
        return
    started = time.monotonic()
    for note in requested.notes:
        run.log.note(f"environment: {note}")
    brokered: Sequence[BrokeredHost] = ()
    # Every change of a secret raises the generation, and most repositories have none.
    if requested.settings.generation:
        brokered = await _open(
            open_proxy_secrets(run.service.db, run.tools.service.keys, run.job.repo_id)
        )
    for host in brokered:
        run.log.add_secret(host.secret)
    environment = RunEnvironment(
        definition=requested.request.definition,
        brokered=brokered,
        is_devcontainer=requested.is_devcontainer,
    )
    if environment != NO_ENVIRONMENT:
        run.phases.begin("environment")
    with contextlib.ExitStack() as held:
        if requested.request.needs_build:
            environment = await _prepare(run, requested, environment, base, held)
        if environment.images and run.tools.sandbox.fetches_images:
            registries = await _open_registries(run)
            environment = dataclasses.replace(environment, registries=registries)
        if environment != NO_ENVIRONMENT:
            await _record(run, environment, started)
        yield environment


async def _prepare(
    run: RunContext,
    requested: RequestedEnvironment,
    environment: RunEnvironment,
    base: str,
    held: contextlib.ExitStack,
) -> RunEnvironment:
    try:
        return await _with_files(run, requested, environment, base, held)
    except EnvironmentFailed as error:
        if not requested.is_devcontainer:
            raise
        # It was written for editors, and agents have worked without it.
        message = str(error).partition("\n")[0]
        await run.warn(f"The agent runs without the environment of devcontainer.json: {message}")
        return RunEnvironment(brokered=environment.brokered)


async def _with_files(
    run: RunContext,
    requested: RequestedEnvironment,
    environment: RunEnvironment,
    base: str,
    held: contextlib.ExitStack,
) -> RunEnvironment:
    """Add the images, and the snapshot of setup."""
    environments = run.tools.environments
    if environments is None:
        raise EnvironmentFailed(
            "The repository needs an environment, and this worker cannot provide one: see"
            " `agentjobs doctor` on its machine."
        )
    job, request = run.job, requested.request
    choice = EnvironmentChoice(
        run.service.db, environments, job.organization_id, job.repo_id, job.created_at
    )
    is_trusted = job.follows is None and requested.is_trusted(job.base_branch, job.default_branch)
    ready = await choice.find_ready(request, held)
    if ready is None and is_trusted:
        await choice.check_waiting(request)
        check_waiting_time(job, request, await run.service.db.clock_ms())
        is_started = environments.accepts_build(job.organization_id)
        if is_started:
            await start_build(run, environments, requested, base)
        raise choice.building(request, is_started=is_started)
    if ready is None:
        ready = await choice.find_similar(request, held)
    if ready is None:
        return dataclasses.replace(
            environment,
            images=await _fetch_images(run, environments, requested, held),
            runs_setup=bool(request.definition.setup),
        )
    stored, images = ready
    await builds.record_use(run.service.db, stored.snapshot.build_id)
    await _check_images_again(run, environments, requested)
    if set(request.images) - set(images):
        # The snapshot of another commit, whose services have other images.
        images = {**images, **await _fetch_images(run, environments, requested, held)}
    return dataclasses.replace(environment, images=images, stored=stored)


def check_waiting_time(job: ClaimedJob, request: EnvironmentRequest, now: int) -> None:
    """Raises EnvironmentFailed for a job whose environment could not be built for a day."""
    has_waited = job.environment_key == hold_key(job.repo_id, request.request_key)
    if has_waited and now - job.created_at >= MAX_OUTAGE_MS:
        raise EnvironmentFailed(
            "The environment could not be built for 24 hours, because a registry or the workers"
            " were not available. See the log of the workers."
        )


async def _check_images_again(
    run: RunContext, environments: WorkerEnvironments, requested: RequestedEnvironment
) -> None:
    """The job does not wait for a registry: the next ones get the image that it has now."""
    job = run.job
    if requested.request.has_tags and environments.are_images_due(job.repo_id):
        new = NewBuild(
            organization_id=job.organization_id,
            repo_id=job.repo_id,
            reason="image",
            branch=job.default_branch,
            location=environments.location,
        )
        await run.service.db.transact(builds.request_build, new)


async def start_build(
    run: RunContext,
    environments: WorkerEnvironments,
    requested: RequestedEnvironment,
    commit: str,
) -> None:
    job, request = run.job, requested.request
    access = await _open(
        load_setup_access(
            run.service.db, run.tools.service.keys, run.settings, job.organization_id, job.repo_id
        )
    )
    new = NewBuild(
        organization_id=job.organization_id,
        repo_id=job.repo_id,
        reason="job",
        branch=job.base_branch,
        commit=commit,
        location=environments.location,
        request=request,
    )
    build_id = await builds.begin_build(run.service.db, new)
    run.log.note(f"environment: build {build_id} starts")
    task = BuildTask(
        build_id=build_id,
        organization_id=job.organization_id,
        repo_id=job.repo_id,
        commit=commit,
        request=request,
        access=access,
    )
    environments.start_build(task)


async def _fetch_images(
    run: RunContext,
    environments: WorkerEnvironments,
    requested: RequestedEnvironment,
    held: contextlib.ExitStack,
) -> dict[str, Image]:
    """For a commit whose setup is not trusted. Its images are: they come with no secret inside."""
    job, images = run.job, environments.tools.images
    credentials = await _open_registries(run)
    try:
        references = requested.request.images
        fetched = await fetch_images(
            images, job.organization_id, references, credentials, run.log.write, run.log.note
        )
    except RegistryUnavailable as error:
        key = hold_key(job.repo_id, requested.request.request_key)
        raise EnvironmentNotReady(
            str(error), EnvironmentHold(key, job.repo_id, None, OUTAGE_HOLD_MS)
        ) from None
    finally:
        # No build ends here, and even a failed download leaves layers.
        environments.trim_soon()
    digests = {reference: image.digest for reference, image in fetched.items()}
    if hold_images(images, job.organization_id, digests, held) is None:
        raise EnvironmentFailed("An image was removed from this worker meanwhile. Try again.")
    return fetched


async def _open_registries(run: RunContext) -> Sequence[RegistryCredential]:
    organization_id = run.job.organization_id
    return await _open(
        open_registry_credentials(run.service.db, run.tools.service.keys, organization_id)
    )


async def _open(opening: Awaitable[T]) -> T:
    """For sealed values, whose key may be missing on this machine."""
    try:
        return await opening
    except Problem as problem:
        raise JobFailed("invalid_configuration", problem.message) from None


async def _record(run: RunContext, environment: RunEnvironment, started: float) -> None:
    stored, image = environment.stored, environment.image
    view = EnvironmentView(
        build_id=None if stored is None else stored.snapshot.build_id,
        image=environment.definition.image or None,
        image_digest=None if image is None else image.digest,
        key=None if stored is None else stored.snapshot.key,
        prepared_ms=round((time.monotonic() - started) * 1_000),
    )
    described = f"snapshot {view.build_id}" if view.build_id else "no snapshot"
    of_image = f", image {image.reference} ({image.digest[:19]})" if image else ""
    run.log.note(f"environment: {described}{of_image}")
    request = RecordEnvironment(run.job.claim, view)
    await retry_within_lease(lambda: run.link.call(request), run.settings.lease_seconds)

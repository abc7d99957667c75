"""Builds the part of a worker that provides environments."""

import logging
from pathlib import Path

from agentjobs.jobs.context import JobsContext
from agentjobs_runtime.mirrors.checkout_limits import MIB
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.sandboxes.slots import build_slots, image_slot
from agentjobs_worker.agents.declarations import agent_limits
from agentjobs_worker.environments.build import BuildTools
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.setup_run import SetupRunner
from agentjobs_worker.environments.snapshots import Snapshots
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxUnavailable
from agentjobs_worker.workspace.checkout import Workspaces
from agentjobs_worker.workspace.session import Session

_log = logging.getLogger(__name__)
DIRECTORY = "environments"
SNAPSHOTS = "snapshots"


async def environments_of(
    context: JobsContext,
    sandbox: Sandbox,
    workspaces: Workspaces,
    mirrors: Mirrors,
    allowed: AllowList,
    certificates: Path | None,
) -> WorkerEnvironments | None:
    """None if this machine cannot provide them."""
    settings = context.settings
    if not settings.has_sandbox:
        return None
    directory = settings.data_path / DIRECTORY
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        await sandbox.check_layers(directory)
    except SandboxUnavailable as error:
        _log.warning("repositories with an environment cannot have it here: %s", error)
        return None
    session = Session(directory)
    slots = settings.effective_slots
    images = Images(
        directory,
        session,
        sandbox,
        allowed,
        slot=image_slot(slots),
        max_bytes=settings.environment_image_max_mib * MIB,
        insecure_registries=settings.insecure_registries,
        certificates=certificates,
    )
    tools = BuildTools(
        session=session,
        mirrors=mirrors,
        images=images,
        snapshots=Snapshots(directory / SNAPSHOTS, session),
        setup=SetupRunner(sandbox, workspaces, certificates),
        allowed=allowed,
        ca_file=settings.ca_file,
        slots=build_slots(slots),
        setup_seconds=settings.setup_seconds,
        limits=agent_limits(settings, {}),
    )
    return WorkerEnvironments(
        context.db, directory, tools, cache_max_bytes=settings.environment_cache_max_mib * MIB
    )

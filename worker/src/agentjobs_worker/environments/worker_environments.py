"""The environments of one worker: its images, its snapshots, and the builds that it runs."""

import asyncio
import contextlib
import logging
import math
import secrets
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from agentjobs_runtime.environments.images.errors import RegistryUnavailable
from agentjobs_runtime.environments.records import (
    BUILD_HOLD_MS,
    OUTAGE_HOLD_MS,
    PREFERENCE_MS,
    Finished,
    hold_key,
)
from agentjobs_runtime.fair_slots import FairSlots
from agentjobs_runtime.mirrors.checkout_limits import MIB
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.private_files import create_private_file
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed, EnvironmentHold
from agentjobs_runtime.sandboxes.slots import build_slots, image_slot
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.agents.declarations import agent_limits
from agentjobs_worker.environments.build import build_environment
from agentjobs_worker.environments.build_log import BuildLog
from agentjobs_worker.environments.build_task import BuildTask, BuildTools
from agentjobs_worker.environments.cache import trim_cache
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.snapshots import SNAPSHOTS, Snapshots
from agentjobs_worker.link.environments import (
    Database,
    StoreError,
    StoreUnavailable,
    build_queries,
    builds,
    hold_jobs,
)
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxError, SandboxLost, SandboxUnavailable
from agentjobs_worker.workspace.checkout import Workspaces
from agentjobs_worker.workspace.session import Session

RENEW_SECONDS = 5.0
# A tag of an image may lead to another image than before.
IMAGE_CHECK_SECONDS = 3_600.0
# Per organization: a waiting build writes to the store every few seconds.
MAX_WAITING_BUILDS = 16
_STORE_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class WorkerEnvironments:
    """`location` identifies the data directory, which outlives a worker."""

    def __init__(
        self, db: Database, directory: Path, tools: BuildTools, *, cache_max_bytes: int
    ) -> None:
        self._db = db
        self._directory = directory
        self.tools = tools
        self._cache_max_bytes = cache_max_bytes
        self._building: dict[tuple[str, str], asyncio.Task[None]] = {}
        # No organization has more than half of the places.
        self._places = FairSlots(len(tools.slots), per_organization=len(tools.slots) // 2)
        self._images_checked_at: dict[str, float] = {}
        self._trimming: asyncio.Task[None] | None = None
        self.location = _location(directory)

    async def start(self) -> None:
        """Remove what dead processes left, and forget snapshots that are gone."""
        await run_in_thread(self.tools.session.sweep)
        await run_in_thread(self.tools.images.sweep)
        await self.reconcile()

    async def reconcile(self) -> None:
        """Make rows and snapshots agree, and end the builds of dead workers."""
        await builds.fail_abandoned(self._db)
        # Before the rows: a build has a row before it has a snapshot.
        stored = {entry.snapshot.build_id: entry for entry in self.tools.snapshots.all()}
        states = await build_queries.states_at(self._db, self.location)
        ready = {build_id for build_id, state in states.items() if state == "ready"}
        gone = sorted(ready - stored.keys())
        if gone:
            await builds.mark_removed(self._db, gone)
        for build_id in stored.keys() - states.keys():
            # Its worker died before it could store this.
            await run_in_thread(self.tools.snapshots.remove, stored[build_id])

    def is_building(self, repo_id: str, request_key: str) -> bool:
        return (repo_id, request_key) in self._building

    def are_images_due(self, repo_id: str) -> bool:
        """Whether to ask the registries again; True once per interval and repository."""
        now = time.monotonic()
        if now < self._images_checked_at.get(repo_id, -math.inf) + IMAGE_CHECK_SECONDS:
            return False
        self._images_checked_at[repo_id] = now
        return True

    def accepts_build(self, organization_id: str) -> bool:
        """False if too many builds of the organization wait for a place."""
        return self._places.count_waiting(organization_id) < MAX_WAITING_BUILDS

    def start_build(self, task: BuildTask) -> asyncio.Task[None]:
        """Run the build in the background, once it has a place. It must not be running already.

        Jobs wait for it until it ends.
        """
        key = (task.repo_id, task.request.request_key)
        building = asyncio.create_task(self._build(task), name=f"build {task.build_id}")
        self._building[key] = building
        self._images_checked_at[task.repo_id] = time.monotonic()
        building.add_done_callback(lambda _: self._building.pop(key, None))
        return building

    async def wait_until_idle(self) -> None:
        while self._building:
            await asyncio.wait(self._building.values())

    async def trim(self) -> None:
        removed = await trim_cache(self.tools, self._cache_max_bytes)
        if removed:
            await builds.mark_removed(self._db, removed)

    def trim_soon(self) -> None:
        """Trim the cache in the background: it may wait for downloads."""
        if self._trimming is None or self._trimming.done():
            self._trimming = asyncio.create_task(self._try_to_trim(), name="trim environments")

    async def cached_repos(self) -> set[str]:
        return {stored.snapshot.repo_id for stored in self.tools.snapshots.all()}

    async def drop_repos(self, repo_ids: Collection[str]) -> None:
        """Remove the snapshots of these repositories that no job uses."""
        removed = [
            stored.snapshot.build_id
            for stored in self.tools.snapshots.all()
            if stored.snapshot.repo_id in repo_ids
            and await run_in_thread(self.tools.snapshots.remove, stored)
        ]
        if removed:
            _log.info("removed snapshots of deleted repositories: %s", ", ".join(removed))
            await builds.mark_removed(self._db, removed)

    async def close(self) -> None:
        for task in list(self._building.values()):
            task.cancel()
        await self.wait_until_idle()
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.gather(self._trimming, return_exceptions=True)
        await run_in_thread(self.tools.session.close)

    async def _build(self, task: BuildTask) -> None:
        log = BuildLog(task.access.secret_values)
        renewing = asyncio.create_task(self._renew(task, log))
        key = hold_key(task.repo_id, task.request.request_key)
        # Also after a failure, which this worker reports to the jobs.
        hold = EnvironmentHold(key, task.repo_id, self.location, PREFERENCE_MS)
        try:
            if not await self._run(task, log):
                hold = EnvironmentHold(key, task.repo_id, None, OUTAGE_HOLD_MS)
        except asyncio.CancelledError:
            with contextlib.suppress(StoreError):
                await asyncio.shield(builds.abandon_build(self._db, task.build_id))
            raise
        except StoreError as error:
            _log.warning("the end of a build could not be stored: %s", error)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await hold_jobs(self._db, hold)
        self.trim_soon()

    async def _try_to_trim(self) -> None:
        try:
            await self.trim()
        except (OSError, StoreError) as error:
            _log.warning("the cache of environments could not be trimmed: %s", error)

    async def _run(self, task: BuildTask, log: BuildLog) -> bool:
        """False if it has to be built again later. Raises StoreError."""
        try:
            async with self._places.hold(task.organization_id) as place:
                slot = self.tools.slots[place]
                finished = await build_environment(self.tools, task, log, slot)
        except (RegistryUnavailable, SandboxLost) as error:
            log.note(str(error))
            await builds.abandon_build(self._db, task.build_id)
            return False
        except (EnvironmentFailed, SandboxError) as error:
            log.note(str(error).partition("\n")[0])
            finished = Finished(error=log.redact(str(error)))
        except (RepoUnavailable, OSError) as error:
            _log.warning("an environment could not be built: %s", error)
            await builds.abandon_build(self._db, task.build_id)
            return False
        except Exception:  # noqa: BLE001 - the jobs that wait for it must learn of any fault
            _log.exception("a build failed with an unexpected error")
            finished = Finished(error="The worker failed. See its log.")
        await self._finish(task, msgspec.structs.replace(finished, log=log.text))
        return True

    async def _finish(self, task: BuildTask, finished: Finished) -> None:
        while True:
            try:
                await builds.finish_build(self._db, task.build_id, finished)
                break
            except StoreUnavailable:
                # What took minutes to build is worth waiting for.
                await asyncio.sleep(_STORE_PAUSE_SECONDS)
        state = "failed" if finished.error else "ready"
        fields = {"build": task.build_id, "repo": task.repo_id, "state": state}
        _log.info("environment built", extra={"fields": fields})

    async def _renew(self, task: BuildTask, log: BuildLog) -> None:
        request_key = task.request.request_key
        key = hold_key(task.repo_id, request_key)
        hold = EnvironmentHold(key, task.repo_id, None, BUILD_HOLD_MS, request_key)
        while True:
            # The lease outlasts several failures.
            with contextlib.suppress(StoreError):
                await hold_jobs(self._db, hold)
                await builds.renew_build(self._db, task.build_id, log.take_change())
            await asyncio.sleep(RENEW_SECONDS)


async def open_environments(
    db: Database,
    settings: Settings,
    sandbox: Sandbox,
    workspaces: Workspaces,
    mirrors: Mirrors,
    allowed: AllowList,
    certificates: Path | None,
) -> WorkerEnvironments | None:
    """None if this machine cannot provide them."""
    if not settings.has_sandbox:
        return None
    directory = settings.data_path / SNAPSHOTS.parent
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
        snapshots=Snapshots(settings.data_path / SNAPSHOTS, session),
        sandbox=sandbox,
        workspaces=workspaces,
        certificates=certificates,
        allowed=allowed,
        ca_file=settings.ca_file,
        slots=build_slots(slots),
        setup_seconds=settings.setup_seconds,
        limits=agent_limits(settings, {}),
    )
    return WorkerEnvironments(
        db, directory, tools, cache_max_bytes=settings.environment_cache_max_mib * MIB
    )


def _location(directory: Path) -> str:
    """Stored beside the snapshots, because they outlive the process."""
    file = directory / "location"
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private_file(file, secrets.token_hex(8).encode())
        return file.read_text("ascii").strip()

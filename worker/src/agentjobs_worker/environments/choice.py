"""Finds the snapshot for a run on this worker, or what the job has to wait for."""

import contextlib
import dataclasses
from collections.abc import Mapping

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.model import Image
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import BUILD_HOLD_MS, PREFERENCE_MS, Build, hold_key
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed, EnvironmentHold
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.snapshots import StoredSnapshot
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.link.environments import (
    Database,
    build_queries,
    is_worker_alive,
    was_held_for,
)


class EnvironmentNotReady(Exception):
    """The job waits, and spends no attempt; the message is for its log."""

    is_failure = False

    def __init__(self, message: str, hold: EnvironmentHold) -> None:
        super().__init__(message)
        self.hold = hold


# A snapshot and its images by reference.
ReadyEnvironment = tuple[StoredSnapshot, Mapping[str, Image]]


@dataclasses.dataclass(frozen=True, slots=True)
class EnvironmentChoice:
    """For one job of a repository."""

    db: Database
    environments: WorkerEnvironments
    organization_id: str
    repo_id: str
    # When the job was created: a build that failed before does not fail it.
    created_at: int

    async def find_ready(
        self, request: EnvironmentRequest, held: contextlib.ExitStack
    ) -> ReadyEnvironment | None:
        """A snapshot of exactly this environment."""
        location = self.environments.location
        builds = await build_queries.find_ready(
            self.db, self.repo_id, request.request_key, location
        )
        return self._borrow_first(builds, held)

    async def find_similar(
        self, request: EnvironmentRequest, held: contextlib.ExitStack
    ) -> ReadyEnvironment | None:
        """For a commit that is not trusted: the best snapshot of a trusted one."""
        best = await build_queries.find_best(
            self.db, self.repo_id, request, self.environments.location
        )
        return None if best is None else self._borrow_first([best], held)

    async def check_waiting(self, request: EnvironmentRequest) -> None:
        """Raises EnvironmentNotReady if a worker builds the environment or has it, and
        EnvironmentFailed if it could not be built."""
        failure = await build_queries.find_failure(
            self.db, self.repo_id, request.request_key, self.created_at
        )
        if failure is not None:
            raise EnvironmentFailed(
                f"{failure.error}\nThe whole log: `agentjobs repos environment log {failure.id}`"
            )
        if self.environments.is_building(self.repo_id, request.request_key):
            raise self.building(request)
        if await build_queries.is_building_elsewhere(
            self.db, self.repo_id, request.request_key, self.environments.location
        ):
            raise self.building(request)
        if (location := await self._location_that_has(request)) is not None:
            key = hold_key(self.repo_id, request.request_key)
            raise EnvironmentNotReady(
                "another worker has the environment of this job",
                EnvironmentHold(key, self.repo_id, location, PREFERENCE_MS),
            )

    def building(
        self, request: EnvironmentRequest, *, is_started: bool = True
    ) -> EnvironmentNotReady:
        """Starts no build if too many builds of the organization wait already."""
        key = hold_key(self.repo_id, request.request_key)
        request_key = request.request_key if is_started else None
        return EnvironmentNotReady(
            "the environment is being built, and the job waits for it",
            EnvironmentHold(key, self.repo_id, None, BUILD_HOLD_MS, request_key),
        )

    def _borrow_first(
        self, builds: list[Build], held: contextlib.ExitStack
    ) -> ReadyEnvironment | None:
        """The first whose snapshot and images were not removed meanwhile. `held` keeps them."""
        tools = self.environments.tools
        for build in builds:
            with contextlib.ExitStack() as stack:
                stored = stack.enter_context(tools.snapshots.borrow(self.repo_id, build.id))
                if stored is None:
                    continue
                digests = stored.snapshot.images
                images = hold_images(tools.images, self.organization_id, digests, stack)
                if images is not None:
                    held.enter_context(stack.pop_all())
                    return stored, images
        return None

    async def _location_that_has(self, request: EnvironmentRequest) -> str | None:
        """Where a running worker has the environment, if this job was not left to it before."""
        builds = await build_queries.find_ready(self.db, self.repo_id, request.request_key)
        key = hold_key(self.repo_id, request.request_key)
        for location in {build.location for build in builds} - {self.environments.location}:
            if location is not None and await is_worker_alive(self.db, location):
                if await was_held_for(self.db, key, location):
                    return None
                return location
        return None


def hold_images(
    images: Images, organization_id: str, digests: Mapping[str, str], stack: contextlib.ExitStack
) -> dict[str, Image] | None:
    """None if one of them is not here."""
    held = {}
    for reference, digest in digests.items():
        try:
            stack.enter_context(images.hold(digest))
        except ImageError:
            return None
        image = images.find(organization_id, digest)
        if image is None:
            return None
        held[reference] = image
    return held

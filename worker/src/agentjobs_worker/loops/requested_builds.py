"""Builds that no job waits for: on request, after a push, and when an image has changed."""

import asyncio
import dataclasses
from functools import partial

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.records import Build, Finished, NewBuild
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.errors import BaseBranchMissing, RepoUnavailable
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.repo_configuration import ConfigurationError
from agentjobs_runtime.settings import Settings
from agentjobs_worker.environments.build_task import BuildTask
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.link.environments import (
    TOPIC,
    Database,
    RequestedEnvironment,
    build_queries,
    builds,
    load_request,
    load_setup_access,
)
from agentjobs_worker.link.publishing import (
    JOB_CREDENTIAL_PREFIX,
    PlatformError,
    fetch_default_branch,
    new_token,
    token_hash,
)
from agentjobs_worker.run.context import JobTools

# A repository whose environment no job has used since is not built again after a push.
RECENT_MS = 14 * 86_400_000
_FAILURES = (
    *(EnvironmentFailed, ConfigurationError, ImageError),
    *(BaseBranchMissing, RepoUnavailable, GitError, PlatformError, Problem),
)
_POLL_SECONDS = 15.0


@dataclasses.dataclass(slots=True)
class RequestedBuilds:
    """Claims and runs the builds of one worker; several loops share it."""

    tools: JobTools
    environments: WorkerEnvironments
    _turns: FairTurns = dataclasses.field(default_factory=FairTurns)
    # The heads of default branches that need no new build.
    _checked: dict[str, str] = dataclasses.field(default_factory=dict)

    async def run_next(self) -> bool:
        """False if none was requested, or only by organizations whose turn it is not."""
        credential = new_token(JOB_CREDENTIAL_PREFIX)
        claim = partial(
            builds.claim_requested, self._db, self.environments.location, token_hash(credential)
        )
        async with self._turns.take(claim) as build:
            if build is not None:
                await self._run(build, credential)
        return build is not None

    async def _run(self, build: Build, credential: str) -> None:
        try:
            building = await self._start(build, credential)
        except _FAILURES as error:
            if build.reason == "request":
                await builds.finish_build(self._db, build.id, Finished(error=str(error)))
            else:
                # Nobody asked for it; the next job reports what is wrong.
                await builds.abandon_build(self._db, build.id)
            return
        if building is not None:
            # The build continues if this loop ends.
            await asyncio.wait([building])

    async def request_after_pushes(self) -> None:
        """Request a build for each new head of a default branch whose environment is in use."""
        since = await self._db.clock_ms() - RECENT_MS
        for row in await build_queries.list_changed_repos(
            self._db, self.environments.location, since
        ):
            if self._checked.get(row["id"]) != row["head_commit"]:
                self._checked[row["id"]] = row["head_commit"]
                await self._db.transact(
                    builds.request_build,
                    NewBuild(
                        organization_id=row["organization_id"],
                        repo_id=row["id"],
                        reason="push",
                        branch=row["default_branch"],
                        location=self.environments.location,
                    ),
                )

    async def _start(self, build: Build, credential: str) -> asyncio.Task[None] | None:
        """None if there is nothing to build."""
        commit = await fetch_default_branch(self.tools.service, build.repo_id, credential)
        requested = await self._request(build.repo_id, commit)
        request = requested.request
        if not request.needs_build:
            raise EnvironmentFailed(
                "The repository defines neither an image nor a setup: there is nothing to build."
            )
        access = await load_setup_access(
            self._db, self.tools.service.keys, self._settings, build.organization_id, build.repo_id
        )
        if self.environments.is_building(
            build.repo_id, request.request_key
        ) or await self._is_current(build, requested, access):
            await builds.abandon_build(self._db, build.id)
            return None
        await builds.describe_build(self._db, build.id, commit, request)
        task = BuildTask(
            build_id=build.id,
            organization_id=build.organization_id,
            repo_id=build.repo_id,
            commit=commit,
            request=request,
            access=access,
        )
        return self.environments.start_build(task)

    async def _request(self, repo_id: str, commit: str) -> RequestedEnvironment:
        mirror = self.tools.mirrors.path(repo_id)
        summary = await self.tools.service.commit_summaries.load(mirror, repo_id, commit)
        configuration = summary.parse_configuration()
        return await load_request(self._db, repo_id, mirror, commit, summary, configuration)

    async def _is_current(
        self, build: Build, requested: RequestedEnvironment, access: SetupAccess
    ) -> bool:
        """Whether a snapshot here has the images that the registries have now."""
        location = self.environments.location
        request, images = requested.request, self.environments.tools.images
        ready = await build_queries.find_ready(
            self._db, build.repo_id, request.request_key, location
        )
        if not ready:
            return False
        digests = {
            reference: await images.resolve(build.organization_id, reference, access.registries)
            for reference in request.images
        }
        return ready[0].key == request.key(digests)

    @property
    def _db(self) -> Database:
        return self.tools.service.db

    @property
    def _settings(self) -> Settings:
        return self.tools.settings


class EnvironmentLoop:
    """Runs builds of environments that no job waits for, one after the other."""

    name = "environments"

    def __init__(self, builds: RequestedBuilds) -> None:
        """A worker has as many as places for builds, so that organizations need not wait."""
        self._changes = builds.tools.link.changes
        self._builds = builds

    async def run(self) -> None:
        # A push makes an index due.
        with self._changes.listen(TOPIC, "index") as signal:
            while True:
                signal.clear()
                await self.run_all()
                await signal.wait(self._changes.poll_seconds(_POLL_SECONDS))

    async def run_all(self) -> None:
        """Run everything that was requested or that a push made necessary."""
        await self._builds.request_after_pushes()
        while await self._builds.run_next():
            pass

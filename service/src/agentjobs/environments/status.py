"""What people see of a repository's environment: its definition, its snapshots and its builds."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentjobs.environments import build_queries
from agentjobs.environments.definition_source import DefinitionInEffect, load_definition
from agentjobs.fleet.processes import worker_silent_ms
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Database
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.records import Build
from agentjobs_runtime.settings import Settings


class EnvironmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`builds`, newest first. `hosts` has the host names of workers by the location of builds."""

    effective: DefinitionInEffect
    builds: tuple[Build, ...]
    hosts: Mapping[str, str]

    @property
    def snapshots(self) -> tuple[Build, ...]:
        return tuple(build for build in self.builds if build.state == "ready")

    @property
    def in_progress(self) -> tuple[Build, ...]:
        return tuple(build for build in self.builds if build.state in ("queued", "building"))

    @property
    def current(self) -> Build | None:
        """The newest snapshot that jobs on the default branch start from."""
        return next(filter(self.is_current, self.snapshots), None)

    @property
    def nothing_to_build(self) -> str:
        """Why no build can be requested; empty if one can."""
        request = self.effective.request
        if request is None or request.needs_build:
            return ""
        if self.effective.source == "none":
            return "The repository defines no environment, so there is nothing to build."
        return "The environment has neither an image nor a setup command: nothing has to be built."

    def is_current(self, build: Build) -> bool:
        request = self.effective.request
        return request is not None and build.request_key == request.request_key


async def load_status(db: Database, root: Path, repo: RepoView) -> EnvironmentStatus:
    effective = await load_definition(db, root, repo)
    return await with_builds(db, effective, repo.id)


async def with_builds(
    db: Database, effective: DefinitionInEffect, repo_id: str
) -> EnvironmentStatus:
    rows = await db.fetch_all(
        "SELECT w.location, MIN(w.hostname) AS hostname FROM workers w WHERE w.location IN"
        " (SELECT b.location FROM environment_builds b WHERE b.repo_id = :repo_id)"
        " GROUP BY w.location",
        repo_id=repo_id,
    )
    return EnvironmentStatus(
        effective=effective,
        builds=tuple(await build_queries.list_builds(db, repo_id)),
        hosts={row["location"]: row["hostname"] for row in rows},
    )


async def can_build(db: Database, settings: Settings) -> bool:
    """Whether a worker is running that can provide environments."""
    row = await db.fetch_one(
        "SELECT 1 FROM workers WHERE location <> '' AND drain_requested_at IS NULL"
        f" AND heartbeat_at > {DATABASE_NOW} - :silent_ms LIMIT 1",
        now=now_ms(),
        silent_ms=worker_silent_ms(settings),
    )
    return row is not None

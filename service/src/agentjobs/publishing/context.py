"""The part of a run that the service does: before its agent starts, and once it has succeeded."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentjobs.connections.adapters import Platforms
from agentjobs.inventory.commit_summary import CommitSummaryCache
from agentjobs.inventory.published_poms import PomFetcher
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.warnings import add_warnings
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.protocol import BasePlatform
from agentjobs.publishing.phases import RunPhases
from agentjobs.store.database import Database, StoreError
from agentjobs.tickets.resolve import Tickets
from agentjobs_dependencies.version_choice import RegistryVersionChooser
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """Built once per process."""

    context: JobsContext
    mirrors: Mirrors
    # The built-in platforms, by name; `platforms` has those that are reached over a connection.
    builtin_adapters: Mapping[str, BasePlatform]
    platforms: Platforms
    tickets: Tickets
    keys: SealingKeys
    chooser: RegistryVersionChooser
    poms: PomFetcher
    commit_summaries: CommitSummaryCache

    @property
    def db(self) -> Database:
        return self.context.db


class RunLog(Protocol):
    """The log of the job's run."""

    def note(self, line: str) -> None:
        """Write a line of the service."""

    def redact(self, text: str) -> str:
        """Remove the secrets of the run."""


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """The agent's commit, made from `base`."""

    base: str
    commit: str


@dataclass(slots=True)
class ServiceRun:
    job: ClaimedJob
    tools: ServiceTools
    log: RunLog
    phases: RunPhases = field(init=False)

    def __post_init__(self) -> None:
        self.phases = RunPhases(self.job)

    @property
    def db(self) -> Database:
        return self.tools.db

    @property
    def settings(self) -> Settings:
        return self.tools.context.settings

    @property
    def mirror(self) -> Path:
        return self.tools.mirrors.path(self.job.repo_id)

    async def warn(self, *messages: str) -> None:
        """Warn the client of the job: in its log and in its `warnings`."""
        if not messages:
            return
        for message in messages:
            self.log.note(f"warning: {message}")
        # A run does not fail because of a warning that could not be stored.
        with contextlib.suppress(StoreError):
            redacted = [self.log.redact(message) for message in messages]
            await self.db.transact(add_warnings, self.job, redacted)

"""Objects shared by all request handlers, available as `request.app.state.context`."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentjobs.connections.adapters import Platforms
from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.views.statistics import Statistics
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.repos.disk_quota import RepositoryQuota
from agentjobs.repos.imports.imports import Imports
from agentjobs.store.database import Database
from agentjobs.web.api.rate_limit import OpenRequests, RateLimiter
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs.web.git.slots import GitSlots
from agentjobs.web.hooks.limits import HookLimits
from agentjobs.web.metrics.registry import Metrics, ServiceMetrics
from agentjobs.workers.agents import Catalog
from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.settings import Settings

if TYPE_CHECKING:
    from agentjobs.web.openid import OpenId


@dataclass(slots=True)
class WebContext:
    jobs: JobsContext
    authenticator: ApiKeyAuthenticator
    # CA bundle for git; None uses the system's.
    certificates: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # None only in tests that connect no platform.
    platforms: Platforms | None = None
    metrics: Metrics = field(default_factory=ServiceMetrics)
    # Why the process cannot do its work, as a sentence for `/readyz`; empty if it can.
    find_problem: Callable[[], str] = lambda: ""
    # Says in `/healthz` which process answers.
    instance: str | None = None
    # Number of open live streams per session.
    streams: Counter[bytes] = field(default_factory=Counter)
    hook_limits: HookLimits = field(default_factory=HookLimits)
    settings: Settings = field(init=False)
    db: Database = field(init=False)
    plans: Plans = field(init=False)
    catalog: Catalog = field(init=False)
    keys: SealingKeys = field(init=False)
    # None if no provider is configured.
    openid: "OpenId | None" = field(init=False)
    imports: Imports = field(init=False)
    statistics: Statistics = field(init=False)
    git_slots: GitSlots = field(init=False)
    open_requests: OpenRequests = field(init=False)
    rate_limiter: RateLimiter = field(init=False)
    client_addresses: ClientAddresses = field(init=False)
    free_space: FreeSpace = field(init=False)
    repositories: RepositoriesDirectory = field(init=False)
    # The repositories may lie on a volume of their own.
    repositories_space: FreeSpace = field(init=False)
    repository_quota: RepositoryQuota = field(init=False)

    def __post_init__(self) -> None:
        # Copied here because every request reads them.
        self.settings, self.db = self.jobs.settings, self.jobs.db
        self.plans, self.catalog = self.jobs.plans, self.jobs.catalog
        self.keys = SealingKeys.load(self.settings)
        self.openid = _openid(self.settings, self.keys)

        self.statistics = Statistics(self.db)
        self.free_space = FreeSpace(self.settings.data_path, self.settings.disk_floor_mib)
        self.client_addresses = ClientAddresses(self.settings.trusted_proxies)
        self.open_requests = OpenRequests(self.settings.streams_per_key)
        self.rate_limiter = RateLimiter(
            self.settings.rate_limit_per_second, self.settings.rate_limit_burst
        )
        self.git_slots = GitSlots(
            self.settings.git_concurrency, self.settings.limit_git_cpu_seconds
        )
        self.repositories = RepositoriesDirectory(self.db, self.settings)
        self.repositories_space = FreeSpace(
            self.settings.repositories_path, self.settings.disk_floor_mib
        )
        self.repository_quota = RepositoryQuota(self.db, self.settings)
        self.imports = Imports(
            self.db, self.settings, self.repositories, self.repository_quota, self.certificates
        )

    async def close(self) -> None:
        await self.imports.close()
        if self.openid is not None:
            await self.openid.close()


def _openid(settings: Settings, keys: SealingKeys) -> "OpenId | None":
    if not settings.oidc_issuer:
        return None
    # Importing it takes a third of a second.
    from agentjobs.web.openid import OpenId  # noqa: PLC0415

    return OpenId(settings, keys)

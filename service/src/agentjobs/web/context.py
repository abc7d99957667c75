"""Objects shared by all request handlers, available as `request.app.state.context`."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentjobs.connections.adapters import Platforms
from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.views.statistics import Statistics
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.repos.disk_quota import RepositoryQuota
from agentjobs.repos.imports.imports import Imports
from agentjobs.web.api.rate_limit import OpenRequests, RateLimiter
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs.web.git.slots import GitSlots
from agentjobs.web.hooks.limits import HookLimits
from agentjobs.web.metrics.registry import Metrics, ServiceMetrics
from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.settings import Settings

if TYPE_CHECKING:
    from agentjobs.web.openid import OpenId


class WebContext:
    """`platforms` is None only in tests that connect none."""

    def __init__(
        self,
        jobs: JobsContext,
        authenticator: ApiKeyAuthenticator,
        # CA bundle for git; None uses the system's.
        certificates: Path | None = None,
        stopping: asyncio.Event | None = None,
        *,
        metrics: Metrics | None = None,
        # Why the process cannot do its work, as a sentence for `/readyz`; empty if it can.
        find_problem: Callable[[], str] = lambda: "",
    ) -> None:
        self.jobs = jobs
        self.authenticator = authenticator
        self.stopping = stopping or asyncio.Event()
        self.metrics = metrics or ServiceMetrics()
        self.find_problem = find_problem
        self.platforms: Platforms | None = None
        # Says in `/healthz` which process answers.
        self.instance: str | None = None
        # Number of open live streams per session.
        self.streams: Counter[bytes] = Counter()
        self.hook_limits = HookLimits()
        # Copied here because every request reads them.
        self.settings, self.db = jobs.settings, jobs.db
        self.plans, self.catalog = jobs.plans, jobs.catalog
        self.keys = SealingKeys.load(self.settings)
        # None if no provider is configured.
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
        # The repositories may lie on a volume of their own.
        self.repositories_space = FreeSpace(
            self.settings.repositories_path, self.settings.disk_floor_mib
        )
        self.repository_quota = RepositoryQuota(self.db, self.settings)
        self.imports = Imports(
            self.db, self.settings, self.repositories, self.repository_quota, certificates
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

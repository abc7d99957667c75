"""What the web half has at hand: made once, reached as `request.app.state.context`."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentjobs.agents.catalog import Catalog
from agentjobs.connections.adapters import Platforms
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.views.statistics import Statistics
from agentjobs.organizations.key_ring import KeyRing
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.repos.imports.imports import Imports
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.web.metrics.registry import Metrics

if TYPE_CHECKING:
    from agentjobs.web.openid import OpenId


@dataclass(slots=True)
class WebContext:
    jobs: JobsContext
    keyring: KeyRing
    # A file with all authorities that git shall trust; None: the system's.
    certificates: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # How hosts elsewhere are reached; None only where nothing is connected to any.
    platforms: Platforms | None = None
    metrics: Metrics = field(default_factory=Metrics)
    # How many pages of a session are live.
    streams: Counter[bytes] = field(default_factory=Counter)
    settings: Settings = field(init=False)
    db: Database = field(init=False)
    plans: Plans = field(init=False)
    catalog: Catalog = field(init=False)
    keys: SealingKeys = field(init=False)
    # None: no provider is set up.
    openid: "OpenId | None" = field(init=False)
    imports: Imports = field(init=False)
    statistics: Statistics = field(init=False)

    def __post_init__(self) -> None:
        # Within reach on the path of every request.
        self.settings, self.db = self.jobs.settings, self.jobs.db
        self.plans, self.catalog = self.jobs.plans, self.jobs.catalog
        self.keys = SealingKeys.load(self.settings)
        self.openid = _openid(self.settings, self.keys)

        self.statistics = Statistics(self.db)
        self.imports = Imports(self.db, self.settings, self.certificates)

    async def close(self) -> None:
        await self.imports.close()
        if self.openid is not None:
            await self.openid.close()


def _openid(settings: Settings, keys: SealingKeys) -> "OpenId | None":
    if not settings.oidc_issuer:
        return None
    # What it is made of takes a third of a second to load.
    from agentjobs.web.openid import OpenId  # noqa: PLC0415

    return OpenId(settings, keys)

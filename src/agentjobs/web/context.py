"""What the web half has at hand: made once, reached as `request.app.state.context`."""

import asyncio
from dataclasses import dataclass, field

from agentjobs.agents.catalog import Catalog
from agentjobs.jobs.context import JobsContext
from agentjobs.organizations.key_ring import KeyRing
from agentjobs.organizations.plans import Plans
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.web.metrics import Metrics


@dataclass(slots=True)
class WebContext:
    jobs: JobsContext
    keyring: KeyRing
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: Metrics = field(default_factory=Metrics)
    settings: Settings = field(init=False)
    db: Database = field(init=False)
    plans: Plans = field(init=False)
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        # Within reach on the path of every request.
        self.settings, self.db = self.jobs.settings, self.jobs.db
        self.plans, self.catalog = self.jobs.plans, self.jobs.catalog

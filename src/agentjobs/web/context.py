"""What the web half has at hand: made by the wiring, reached as `request.app.state.context`."""

import asyncio
from dataclasses import dataclass, field

from agentjobs.agents.catalog import Catalog
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.fleet import Fleet
from agentjobs.organizations.key_ring import KeyRing
from agentjobs.organizations.plans import Plans
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.web.metrics import Metrics


@dataclass(slots=True)
class WebContext:
    settings: Settings
    db: Database
    keyring: KeyRing
    plans: Plans
    catalog: Catalog
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: Metrics = field(default_factory=Metrics)
    jobs: JobsContext = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = JobsContext(
            db=self.db,
            settings=self.settings,
            plans=self.plans,
            catalog=self.catalog,
            fleet=Fleet(self.db),
        )

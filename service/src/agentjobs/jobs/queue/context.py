"""What every operation on jobs needs: database, settings, agents, plans, workers."""

from dataclasses import dataclass, field

from agentjobs.jobs.queue.fleet import Fleet
from agentjobs.jobs.queue.lengths import QueueLengths
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database
from agentjobs.worker_part.agents import Catalog
from agentjobs_runtime.settings import Settings


@dataclass(slots=True)
class JobsContext:
    db: Database
    settings: Settings
    catalog: Catalog
    plans: Plans = field(init=False)
    fleet: Fleet = field(init=False)
    queue_lengths: QueueLengths = field(init=False)
    # Idempotency keys whose first request this process is handling.
    keys_in_flight: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plans = Plans(self.settings.plans)
        self.fleet = Fleet(self.db, self.settings, self.plans, self.catalog)
        self.queue_lengths = QueueLengths(self.settings.queue_limit)

"""What the service knows of one connected worker: who it is, and the jobs that it runs."""

from collections.abc import Collection, Iterable
from copy import copy

from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.store.database import Database
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings


class WorkerSession:
    def __init__(self, context: JobsContext, worker_id: str) -> None:
        self.context = context
        self.db = context.db
        self.worker_id = worker_id
        self._claimer: Claimer | None = None
        self._jobs: dict[Claim, ClaimedJob] = {}
        self._renewed: set[Claim] = set()

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def claimer(self) -> Claimer:
        if self._claimer is None:
            raise ServiceError("a worker registers with a heartbeat before it claims jobs")
        return self._claimer

    def with_database(self, db: Database) -> "WorkerSession":
        """The same session, for requests that are handled with another connection."""
        other = copy(self)
        other.db = db
        return other

    def register(self, worker: WorkerInfo) -> None:
        if worker.id != self.worker_id:
            raise ServiceError(f"the worker {worker.id} is not the one of this connection")
        if self._claimer is None:
            self._claimer = Claimer(self.context, worker.id, worker.tags, worker.location)

    def assign(self, jobs: Iterable[ClaimedJob]) -> None:
        self._jobs.update((job.claim, job) for job in jobs)

    def job(self, claim: Claim) -> ClaimedJob:
        """Raises ClaimLost for a claim that this worker did not get, or that has ended."""
        try:
            return self._jobs[claim]
        except KeyError:
            raise ClaimLost from None

    def end(self, claim: Claim) -> None:
        self._jobs.pop(claim, None)

    def keep_only(self, claims: Collection[Claim]) -> None:
        """The worker renews these: it no longer runs the others that it renewed before."""
        for claim in self._renewed.difference(claims):
            self.end(claim)
        self._renewed.clear()
        self._renewed.update(claims)

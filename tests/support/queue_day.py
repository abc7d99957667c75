"""A day of a service in which jobs arrive, wait for slots and run, and every estimate is kept.

Claims share slots with the function of real workers, and estimates come from the service's own
functions; only the clock, the store and the agents are simulated.
"""

import heapq
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, field

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queue.acceptance import Admission
from agentjobs.jobs.queue.durations import Durations, FinishedJob
from agentjobs.jobs.queue.estimate import estimate_start
from agentjobs.jobs.queue.fleet import FleetState, LiveWorker, build_pools
from agentjobs.jobs.queue.queue_model import Arrivals, Backlog, Queue, RunningJob
from agentjobs.jobs.queue.waiting_organizations import Waiting, share_slots
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

SECOND = 1_000
HOUR = 3_600 * SECOND
# The median of an agent's durations in seconds, and the spread of their logarithm.
AGENTS = {
    "lint-fixer": (40, 0.5),
    "reviewer": (90, 0.6),
    "cve-fixer": (180, 0.7),
    "coder": (600, 0.8),
}
# How busy each hour is, compared with the average.
HOURS = (
    0.2, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 2.2, 2.0,
    1.5, 1.8, 2.2, 2.2, 2.0, 1.6, 1.1, 0.8, 0.6, 0.5, 0.4, 0.3,
)  # fmt: skip
JOBS = 1_000
BURSTS = (1, 1, 1, 1, 2, 3, 8, 20)
ORGANIZATIONS = 20
PLANS = {"free": 0.5, "pro": 0.4, "enterprise": 0.1}
JOBS_PER_PLAN = {"free": 0.3, "pro": 1.5, "enterprise": 4.0}
REPOS = 3
SLOTS = 3
WORKERS_BY_DAY = 4
WORKERS_AT_NIGHT = 2
_plans = Plans(DEFAULT_PLANS)


@dataclass(eq=False)
class Job:
    created_at: int
    organization: str
    plan: str
    agent: str
    repo_id: str
    preparation_ms: int
    duration_ms: int
    estimate_ms: int = 0
    claimed_at: int | None = None
    worker: str = ""

    @property
    def started_at(self) -> int:
        assert self.claimed_at is not None
        return self.claimed_at + self.preparation_ms

    @property
    def had_to_wait(self) -> bool:
        return self.claimed_at != self.created_at

    @property
    def relative_error(self) -> float:
        waited_ms = self.started_at - self.created_at
        return abs(self.estimate_ms - waited_ms) / waited_ms

    @property
    def hour(self) -> int:
        return self.created_at // HOUR


def arrivals(chance: random.Random) -> list[Job]:
    """Organizations create jobs one by one or in bursts, each burst for one agent."""
    plans = chance.choices(list(PLANS), list(PLANS.values()), k=ORGANIZATIONS)
    weights = [JOBS_PER_PLAN[plan] * chance.lognormvariate(0, 1) for plan in plans]
    jobs: list[Job] = []
    for hour, share in enumerate(HOURS):
        wanted = len(jobs) + round(JOBS * share / sum(HOURS))
        while len(jobs) < wanted:
            (number,) = chance.choices(range(ORGANIZATIONS), weights)
            agent = chance.choice(list(AGENTS))
            median, spread = AGENTS[agent]
            at = hour * HOUR + chance.randrange(HOUR)
            for _ in range(chance.choice(BURSTS)):
                jobs.append(
                    Job(
                        created_at=at,
                        organization=f"org_{number:02}",
                        plan=plans[number],
                        agent=agent,
                        repo_id=f"repo_{number:02}_{chance.randrange(REPOS)}",
                        preparation_ms=chance.randrange(300, 2_000),
                        duration_ms=round(SECOND * chance.lognormvariate(math.log(median), spread)),
                    )
                )
                at += chance.randrange(SECOND)
    return sorted(jobs, key=lambda job: job.created_at)


@dataclass
class Day:
    jobs: list[Job]
    now: int = 0
    created: list[Job] = field(default_factory=list)
    waiting: dict[str, list[Job]] = field(default_factory=dict)
    running: list[Job] = field(default_factory=list)
    finished: list[Job] = field(default_factory=list)
    last_claimed: Counter[str] = field(default_factory=Counter)
    state: FleetState | None = None
    state_read_at: int = 0

    def run(self) -> None:
        numbers = itertools.count()
        # Workers come and go with the hours.
        events = [(hour * HOUR, next(numbers), None) for hour in range(24)]
        events += [(job.created_at, next(numbers), job) for job in self.jobs]  # type: ignore[misc]
        heapq.heapify(events)
        while events:
            self.now, _, job = heapq.heappop(events)
            if job is not None and job.claimed_at is None:
                job.estimate_ms = self._estimate(job)
                self.created.append(job)
                self.waiting.setdefault(job.organization, []).append(job)
            elif job is not None:
                self.running.remove(job)
                self.finished.append(job)
            for claimed in self._claim():
                end = claimed.started_at + claimed.duration_ms
                heapq.heappush(events, (end, next(numbers), claimed))

    def _workers(self) -> list[LiveWorker]:
        is_day = 8 <= self.now // HOUR < 19
        count = WORKERS_BY_DAY if is_day else WORKERS_AT_NIGHT
        agents = frozenset(AGENTS)
        return [
            LiveWorker(f"wrk_{number}", SLOTS, frozenset(), agents, frozenset())
            for number in range(count)
        ]

    def _claim(self) -> list[Job]:
        claimed = []
        for worker in self._workers():
            active = Counter(job.organization for job in self.running)
            waiting = [
                Waiting(
                    organization,
                    _plans.concurrent_jobs(jobs[0].plan),
                    active[organization],
                    self.last_claimed[organization],
                )
                for organization, jobs in self.waiting.items()
                if jobs
            ]
            free = worker.slots - sum(job.worker == worker.id for job in self.running)
            for organization, share in share_slots(waiting, max(free, 0)).items():
                for job in self.waiting[organization][: share.count]:
                    job.claimed_at, job.worker = self.now, worker.id
                    claimed.append(job)
                    self.running.append(job)
                del self.waiting[organization][: share.count]
                self.last_claimed[organization] = self.now
        return claimed

    def _estimate(self, job: Job) -> int:
        # Cached as in `Fleet`.
        if self.state is None or self.now - self.state_read_at > SECOND:
            self.state, self.state_read_at = self._read_state(), self.now
        return estimate_start(
            _plans,
            Caller(job.organization, job.organization, job.plan, "key", "key", "jobs"),
            self.state,
            Admission(
                repo_id=job.repo_id,
                index_status="ready",
                required_tags=None,
                job_budget_nanousd=None,
                queued_jobs=len(self.waiting.get(job.organization, ())),
                active_jobs=sum(each.organization == job.organization for each in self.running),
                paused_at=None,
            ),
            CreateJobRequest(repo=job.repo_id, agent=job.agent),
            self.now,
        )

    def _read_state(self) -> FleetState:
        workers = self._workers()
        pools, pool_of = build_pools(workers)
        recent = [job for job in self.created[-500:] if job.created_at > self.now - HOUR]
        queue = Queue(
            pools=pools,
            running=[
                RunningJob(
                    job.organization,
                    job.agent,
                    job.repo_id,
                    pool_of.get(job.worker),
                    max(self.now - job.started_at, 0),
                )
                for job in self.running
            ],
            backlogs={
                organization: Backlog(
                    Counter(job.agent for job in jobs),
                    {"high": 0, "normal": len(jobs), "low": len(jobs)},
                    self.now - self.last_claimed[organization],
                )
                for organization, jobs in self.waiting.items()
                if jobs
            },
            limits={job.organization: _plans.concurrent_jobs(job.plan) for job in self.created},
            durations=Durations(
                FinishedJob(job.agent, job.repo_id, job.duration_ms)
                for job in reversed(self.finished[-500:])
            ),
            arrivals=Arrivals([(job.organization, job.agent) for job in recent], HOUR),
        )
        return FleetState.of(workers, queue)


def simulate_day(seed: int) -> list[Job]:
    jobs = arrivals(random.Random(seed))
    Day(jobs).run()
    return jobs

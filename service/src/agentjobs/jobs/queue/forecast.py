"""Forecasts when new jobs start, by simulating how the workers go on with the queue. Pure.

Durations and arrivals are drawn at random from those of recent jobs, and the median of several
runs counts. Typical durations would not do: of ten running jobs, the first ends long before a
typical one would.
"""

import heapq
import itertools
import math
import random
import statistics
from collections import Counter

from agentjobs.jobs.queue.durations import draw_remaining_ms
from agentjobs.jobs.queue.queue_model import Backlog, NewJobs, Queue, RunningJob

_MAX_RUNS = 15
# Limit for all runs of a forecast, which take two milliseconds then.
MAX_EVENTS = 400
_SEED = 1


def forecast_starts(queue: Queue, new: NewJobs, max_events: int = MAX_EVENTS) -> list[int]:
    """In how many milliseconds each of the new jobs is expected to start."""
    runs: list[list[float]] = []
    events = 0
    for number in range(_MAX_RUNS):
        chance = random.Random(_SEED + number)  # noqa: S311 - no secret
        run = _Run(queue, new, chance, max_events)
        runs.append(run.starts())
        events += run.events
        if events + run.events > max_events:
            break
    return [round(statistics.median(times)) for times in zip(*runs, strict=True)]


_Order = tuple[int, float, str]


class _Organization:
    """`waiting` counts its jobs by agent."""

    __slots__ = ("active", "claimed_at", "enqueued_as", "id", "limit", "waiting")

    def __init__(self, id: str, limit: int, backlog: Backlog | None) -> None:
        self.id = id
        self.limit = limit
        self.active = 0
        self.enqueued_as: _Order | None = None
        # Organizations without waiting jobs come first among equals, unless one of their jobs runs.
        self.claimed_at = -math.inf if backlog is None else -backlog.idle_ms
        self.waiting: dict[str, int] = {} if backlog is None else dict(backlog.agents)

    @property
    def order(self) -> _Order:
        """Orders organizations as `waiting_organizations.share_slots` does."""
        return (self.active, self.claimed_at, self.id)


# An organization, an agent, a pool, and whether it runs in the repository of the new jobs.
_Job = tuple[_Organization, str, int | None, bool]


class _Run:
    """One simulation, in milliseconds from now."""

    def __init__(self, queue: Queue, new: NewJobs, chance: random.Random, max_events: int) -> None:
        self.events = 0
        self._queue = queue
        self._new = new
        self._chance = chance
        self._now = 0.0
        self._starts: list[float] = []
        self._free = [pool.slots for pool in queue.pools]
        self._active_of_agent: Counter[str] = Counter()
        self._active_in_repo = 0
        # When a job ends, and its number.
        self._ends: list[tuple[float, int, _Job]] = []
        self._numbers = itertools.count()
        # Organizations that may start a job. Entries that are not their `order` are outdated.
        self._order: list[_Order] = []
        self._organizations: dict[str, _Organization] = {}
        backlog = queue.backlogs.get(new.organization_id)
        self._own = _Organization(new.organization_id, new.limit, backlog)
        self._organizations[new.organization_id] = self._own
        self._own_started = 0
        self._ahead = new.ahead
        self._continue_running()
        # Jobs that run already do not count for a single run.
        self._max_events = self.events + max_events
        for organization_id in queue.backlogs:
            self._enqueue(self._organization(organization_id))
        self._enqueue(self._own)
        self._next_arrival = self._draw_arrival()

    def starts(self) -> list[float]:
        """Start times of the new jobs."""
        while True:
            for pool, free in enumerate(self._free):
                if free > 0:
                    self._fill(pool)
            if len(self._starts) == self._new.count:
                return self._starts
            if not self._ends or self.events >= self._max_events:
                return self._extrapolate()
            if self._next_arrival < self._ends[0][0]:
                self._arrive()
            else:
                self._end()

    def _extrapolate(self) -> list[float]:
        """Assumes that the organization keeps starting jobs as often as until now."""
        ahead = self._own_started + self._ahead
        interval = self._now / max(self._own_started, 1)
        missing = range(1, self._new.count - len(self._starts) + 1)
        return [*self._starts, *((ahead + number) * interval for number in missing)]

    def _organization(self, id: str) -> _Organization:
        organization = self._organizations.get(id)
        if organization is None:
            limit = self._queue.limits.get(id, 1)
            organization = _Organization(id, limit, self._queue.backlogs.get(id))
            self._organizations[id] = organization
        return organization

    def _continue_running(self) -> None:
        own = []
        for job in self._queue.running:
            if job.organization_id == self._own.id:
                own.append((self._draw_remaining_ms(job), job))
            else:
                self._continue(job, self._draw_remaining_ms(job))
        own.sort(key=lambda entry: entry[0])
        for remaining_ms, job in own[self._new.ended :]:
            self._continue(job, remaining_ms)

    def _draw_remaining_ms(self, job: RunningJob) -> float:
        samples = self._queue.durations.of(job.agent, job.repo_id)
        return draw_remaining_ms(samples, job.elapsed_ms, self._chance)

    def _continue(self, job: RunningJob, remaining_ms: float) -> None:
        organization = self._organization(job.organization_id)
        is_in_repo = job.repo_id == self._new.repo_id
        self._occupy((organization, job.agent, job.pool, is_in_repo), remaining_ms)
        organization.claimed_at = max(organization.claimed_at, -job.elapsed_ms)

    def _draw_arrival(self) -> float:
        arrivals = self._queue.arrivals
        if not arrivals.jobs:
            return math.inf
        return self._now + self._chance.expovariate(len(arrivals.jobs) / arrivals.window_ms)

    def _arrive(self) -> None:
        self.events += 1
        self._now = self._next_arrival
        self._next_arrival = self._draw_arrival()
        jobs = self._queue.arrivals.jobs
        organization_id, agent = jobs[int(self._chance.random() * len(jobs))]
        # Later jobs of the same organization come after the new ones.
        if organization_id != self._own.id:
            organization = self._organization(organization_id)
            organization.waiting[agent] = organization.waiting.get(agent, 0) + 1
            self._enqueue(organization)

    def _end(self) -> None:
        self._now, _, (organization, agent, pool, is_in_repo) = heapq.heappop(self._ends)
        if pool is not None:
            self._free[pool] += 1
        self._active_of_agent[agent] -= 1
        self._active_in_repo -= is_in_repo
        organization.active -= 1
        self._enqueue(organization)

    def _enqueue(self, organization: _Organization) -> None:
        has_jobs = organization.waiting or organization is self._own
        order = organization.order
        if (
            has_jobs
            and organization.active < organization.limit
            and organization.enqueued_as != order
        ):
            organization.enqueued_as = order
            heapq.heappush(self._order, order)

    def _fill(self, pool: int) -> None:
        skipped = []
        while self._free[pool] > 0 and self._order:
            order = heapq.heappop(self._order)
            organization = self._organizations[order[2]]
            if order != organization.order:
                continue
            organization.enqueued_as = None
            job = self._take_job(organization, pool)
            if job is None:
                skipped.append(organization)
                continue
            organization.claimed_at = self._now
            self._own_started += organization is self._own
            samples = self._queue.durations.of(job[1])
            self._occupy(job, draw_remaining_ms(samples, 0, self._chance))
            self._enqueue(organization)
        for organization in skipped:
            self._enqueue(organization)

    def _take_job(self, organization: _Organization, pool: int) -> _Job | None:
        """The next job of the organization that the pool can run."""
        is_own = organization is self._own
        if not is_own or self._ahead > 0:
            waiting = organization.waiting
            agents = [agent for agent in waiting if self._can_run(agent, pool)]
            if agents:
                # In which order they wait is not known.
                counts = [waiting[agent] for agent in agents]
                agent = self._chance.choices(agents, counts)[0] if len(agents) > 1 else agents[0]
                waiting[agent] -= 1
                if not waiting[agent]:
                    del waiting[agent]
                self._ahead -= is_own
                return organization, agent, pool, False
        if is_own and len(self._starts) < self._new.count and self._can_run_new(pool):
            self._starts.append(self._now)
            return organization, self._new.agent, pool, True
        return None

    def _can_run(self, agent: str, pool: int) -> bool:
        limit = self._queue.agent_limits.get(agent)
        is_at_limit = limit is not None and self._active_of_agent[agent] >= limit
        return agent in self._queue.pools[pool].agents and not is_at_limit

    def _can_run_new(self, pool: int) -> bool:
        repo_id = self._new.repo_id
        is_at_limit = repo_id and self._active_in_repo >= self._queue.repo_limits[repo_id]
        has_tags = self._queue.pools[pool].tags.issuperset(self._new.tags)
        return has_tags and not is_at_limit and self._can_run(self._new.agent, pool)

    def _occupy(self, job: _Job, remaining_ms: float) -> None:
        self.events += 1
        organization, agent, pool, is_in_repo = job
        if pool is not None:
            self._free[pool] -= 1
        self._active_of_agent[agent] += 1
        self._active_in_repo += is_in_repo
        organization.active += 1
        heapq.heappush(self._ends, (self._now + remaining_ms, next(self._numbers), job))

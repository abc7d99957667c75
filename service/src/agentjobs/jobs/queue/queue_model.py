"""The queue as forecasts see it: workers, running and waiting jobs, and what recent ones teach."""

from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.jobs.queue.durations import Durations


class Pool(msgspec.Struct, frozen=True):
    """Workers with the same agents and tags."""

    slots: int
    agents: frozenset[str]
    tags: frozenset[str] = frozenset()


class RunningJob(msgspec.Struct, frozen=True):
    """`pool` is None if its worker claims no further jobs."""

    organization_id: str
    agent: str
    repo_id: str
    pool: int | None
    elapsed_ms: int


class Backlog(msgspec.Struct, frozen=True):
    """The waiting jobs of an organization by agent.

    `before` counts those that come before a new job, by its priority. `idle_ms` is for how long
    none was claimed.
    """

    agents: Mapping[str, int]
    before: Mapping[str, int] = {}
    idle_ms: int = 0


class Arrivals(msgspec.Struct, frozen=True):
    """The organization and the agent of each job that was created in the last `window_ms`."""

    jobs: Sequence[tuple[str, str]] = ()
    window_ms: int = 1


class Queue(msgspec.Struct, frozen=True):
    """The limits are on jobs that run at the same time; `limits` are those of organizations."""

    pools: Sequence[Pool]
    running: Sequence[RunningJob]
    backlogs: Mapping[str, Backlog]
    limits: Mapping[str, int]
    agent_limits: Mapping[str, int] = {}
    repo_limits: Mapping[str, int] = {}
    durations: Durations = Durations()
    arrivals: Arrivals = Arrivals()


class NewJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one kind that an organization has created since the queue was read.

    Of the jobs that waited then, `ahead` come before them; of those that ran, `ended` have ended.
    `repo_id` is given if the repository has a limit.
    """

    organization_id: str
    limit: int
    agent: str
    repo_id: str | None = None
    tags: frozenset[str] = frozenset()
    ahead: int = 0
    ended: int = 0
    count: int = 1

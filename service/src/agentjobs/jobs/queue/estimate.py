"""Estimates how long until a job starts, from the queue, the workers and the plan. Pure."""

from collections.abc import Collection

import msgspec

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queue.acceptance import Admission
from agentjobs.jobs.queue.fleet import FleetState, decode_tags
from agentjobs.jobs.queue.forecast import MAX_EVENTS, forecast_starts
from agentjobs.jobs.queue.queue_model import Backlog, NewJobs
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans

# Each further group of forecasts from one state may simulate half as many events as the one before,
# so that they do not take long together.
_FORECASTS_PER_GROUP = 16
_MIN_EVENTS = 50
_NOTHING = Backlog({})


def prepare_estimate(
    plans: Plans, caller: Caller, fleet: FleetState, request: CreateJobRequest
) -> None:
    """Makes the forecast that the transaction will probably need, so that it does not take long."""
    if not fleet.is_busy:
        return
    organization_id = caller.organization_id
    waiting = sum(fleet.queue.backlogs.get(organization_id, _NOTHING).agents.values())
    expected = Admission(
        repo_id=None,
        index_status=None,
        required_tags=None,
        job_budget_nanousd=None,
        queued_jobs=waiting + fleet.created[organization_id],
        active_jobs=fleet.active_of[organization_id],
        paused_at=None,
    )
    fleet.created[organization_id] += 1
    estimate_start(plans, caller, fleet, expected, request, now=0)


def estimate_start(
    plans: Plans,
    caller: Caller,
    fleet: FleetState,
    admission: Admission,
    request: CreateJobRequest,
    now: int,
) -> int:
    """In how many milliseconds a new job starts.

    Without workers that can run it, jobs are assumed to start one after the other.
    """
    agent, tags = request.agent, decode_tags(admission.required_tags)
    limit = plans.concurrent_jobs(caller.plan)
    if not fleet.slots_for(agent, tags):
        wait_ms = (admission.queued_jobs + 1) * fleet.queue.durations.typical_ms(agent)
    elif not tags and _has_free_slot(fleet, caller.organization_id, limit, admission, agent):
        wait_ms = 0
    else:
        new, unseen = _new_jobs(limit, caller, fleet, admission, request)
        wait_ms = _forecast(fleet, new)[unseen]
    return wait_ms + _pause_ms(fleet, agent, admission.paused_at, now)


def _has_free_slot(
    fleet: FleetState, organization_id: str, limit: int, admission: Admission, agent: str
) -> bool:
    """Quickly answered for the usual case; otherwise a forecast says when."""
    queue = fleet.queue
    jobs = admission.queued_jobs + admission.active_jobs
    return (
        not queue.backlogs
        and jobs < limit
        and jobs - fleet.active_of[organization_id] < fleet.free_slots_of[agent]
        and agent not in queue.agent_limits
        and admission.repo_id not in queue.repo_limits
    )


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True):
    """`ahead` of it are other waiting jobs of the organization, of which `active` jobs run now."""

    organization_id: str
    limit: int
    agent: str
    tags: Collection[str]
    ahead: int
    active: int
    paused_at: int | None


def estimate_waiting(fleet: FleetState, job: WaitingJob, now: int) -> int:
    """In how many milliseconds a job starts that waits already."""
    # Jobs that were claimed since the state was read are still ahead in it.
    ahead = job.ahead + job.active - fleet.active_of[job.organization_id]
    # Starts between two places are interpolated, so that there are few distinct forecasts.
    step = 1 << max(ahead.bit_length() - 2, 0)
    lower = max(ahead // step * step, 0)
    wait_ms = _start_behind(fleet, job, lower)
    if ahead > lower:
        upper_ms = _start_behind(fleet, job, lower + step)
        wait_ms += (upper_ms - wait_ms) * (ahead - lower) // step
    return wait_ms + _pause_ms(fleet, job.agent, job.paused_at, now)


def _start_behind(fleet: FleetState, job: WaitingJob, ahead: int) -> int:
    backlog = fleet.queue.backlogs.get(job.organization_id, _NOTHING)
    unseen = max(ahead - sum(backlog.agents.values()), 0)
    new = NewJobs(
        organization_id=job.organization_id,
        limit=job.limit,
        agent=job.agent,
        tags=frozenset(job.tags),
        ahead=ahead - unseen,
        ended=max(fleet.active_of[job.organization_id] - job.active - job.ahead, 0),
        count=_rounded_count(unseen),
    )
    return _forecast(fleet, new)[unseen]


def _new_jobs(
    limit: int, caller: Caller, fleet: FleetState, admission: Admission, request: CreateJobRequest
) -> tuple[NewJobs, int]:
    """Also how many jobs the organization has created since the state was read."""
    backlog = fleet.queue.backlogs.get(caller.organization_id, _NOTHING)
    seen = sum(backlog.agents.values()) + fleet.active_of[caller.organization_id]
    unseen = admission.queued_jobs + admission.active_jobs - seen
    priority = str((request.config_override or {}).get("priority", "normal"))
    new = NewJobs(
        organization_id=caller.organization_id,
        limit=limit,
        agent=request.agent,
        repo_id=admission.repo_id if admission.repo_id in fleet.queue.repo_limits else None,
        tags=frozenset(decode_tags(admission.required_tags)),
        ahead=backlog.before.get(priority, 0),
        ended=max(-unseen, 0),
        count=_rounded_count(max(unseen, 0)),
    )
    return new, max(unseen, 0)


def _rounded_count(unseen: int) -> int:
    """A power of four: few distinct forecasts, however many jobs are created in a second."""
    return 1 << (unseen.bit_length() + 1) // 2 * 2


def _forecast(fleet: FleetState, new: NewJobs) -> list[int]:
    starts = fleet.forecasts.get(new)
    if starts is None:
        halvings = len(fleet.forecasts) // _FORECASTS_PER_GROUP
        max_events = max(MAX_EVENTS >> halvings, _MIN_EVENTS)
        starts = fleet.forecasts[new] = forecast_starts(fleet.queue, new, max_events)
    return starts


def _pause_ms(fleet: FleetState, agent: str, organization_since: int | None, now: int) -> int:
    """The end of a pause is unknown: it is expected to last as long again as it has lasted,
    and at least for the duration of a job."""
    if fleet.paused_at is None and organization_since is None:
        return 0
    since = min(at for at in (fleet.paused_at, organization_since) if at is not None)
    return max(now - since, fleet.queue.durations.typical_ms(agent))

"""Estimates how long until a new job starts, from the queue, the workers and the plan. Pure."""

import statistics

from agentjobs.jobs.acceptance import Admission
from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queue.fleet import FleetState, decode_tags
from agentjobs.jobs.queue.forecast import MAX_EVENTS, forecast_starts
from agentjobs.jobs.queue.queue_model import Backlog, NewJobs
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans

# So many forecasts from one state are exact. Each further group of them may simulate half as many
# events as the one before, so that they never take long together.
_FORECASTS_PER_GROUP = 16
_NOTHING = Backlog({})


def prepare_estimate(
    plans: Plans, caller: Caller, fleet: FleetState, request: CreateJobRequest
) -> None:
    """Makes the forecast that the transaction will probably need, so that it does not take long."""
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
    """Nobody knows when a pause ends: the estimate is that it goes on for as long as it has lasted,
    and at least for the duration of a job."""
    new, unseen = _new_jobs(plans.concurrent_jobs(caller.plan), caller, fleet, admission, request)
    typical_ms = round(statistics.fmean(fleet.queue.durations.of(request.agent)))
    if not fleet.slots_for(new.agent, new.tags):
        wait_ms = (admission.queued_jobs + 1) * typical_ms
    elif fleet.has_free_slot(new, unseen):
        wait_ms = 0
    else:
        wait_ms = _forecast(fleet, new)[unseen]
    paused_ms = _paused_ms(fleet.paused_at, admission.paused_at, now)
    return wait_ms if paused_ms is None else max(paused_ms, typical_ms) + wait_ms


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
        # A power of four: few distinct forecasts, however many jobs are created in a second.
        count=4 ** ((max(unseen, 0).bit_length() + 1) // 2),
    )
    return new, max(unseen, 0)


def _forecast(fleet: FleetState, new: NewJobs) -> list[int]:
    starts = fleet.forecasts.get(new)
    if starts is None:
        max_events = MAX_EVENTS >> (len(fleet.forecasts) // _FORECASTS_PER_GROUP)
        starts = fleet.forecasts[new] = forecast_starts(fleet.queue, new, max_events)
    return starts


def _paused_ms(service_since: int | None, organization_since: int | None, now: int) -> int | None:
    """For how long the service or the organization has been paused; None if it is not."""
    if service_since is None and organization_since is None:
        return None
    return max(now - at if at is not None else 0 for at in (service_since, organization_since))

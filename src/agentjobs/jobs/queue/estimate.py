"""Estimates how long until a new job starts, from the queue, the workers and the plan. Pure."""

import msgspec

from agentjobs.jobs.acceptance import Admission
from agentjobs.jobs.queue.fleet import FleetState, decode_tags
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans


class QueueState(msgspec.Struct, frozen=True):
    """The jobs ahead of a new one. `waiting` excludes jobs that their plans hold back anyway."""

    waiting: int
    active: int
    organization_waiting: int
    organization_active: int


def estimate_start(
    plans: Plans, caller: Caller, fleet: FleetState, admission: Admission, agent: str, now: int
) -> int:
    tags = decode_tags(admission.required_tags)
    queued, active = admission.queued_jobs, admission.active_jobs
    return estimated_start_ms(
        QueueState(
            waiting=fleet.startable_of_others(caller.organization_id) + queued,
            active=max(fleet.active, active),
            organization_waiting=queued,
            organization_active=active,
        ),
        slots=fleet.slots_for(agent, tags),
        organization_limit=plans.concurrent_jobs(caller.plan),
        typical_duration_ms=fleet.typical_duration_ms,
        paused_ms=_paused_ms(fleet.paused_at, admission.paused_at, now),
    )


def _paused_ms(service_since: int | None, organization_since: int | None, now: int) -> int | None:
    """For how long the service or the organization has been paused; None if it is not."""
    if service_since is None and organization_since is None:
        return None
    return max(now - at if at is not None else 0 for at in (service_since, organization_since))


def estimated_start_ms(
    queue: QueueState,
    *,
    slots: int,
    organization_limit: int,
    typical_duration_ms: int,
    paused_ms: int | None = None,
) -> int:
    """0 when a slot is free now; otherwise the later of the workers' and the plan's estimate.

    Nobody knows when a pause ends: the estimate is that it goes on for as long as it has lasted,
    and at least for the duration of a job.
    """
    rounds = max(
        _rounds(queue.waiting, queue.active, max(slots, 1)) if slots else queue.waiting + 1,
        _rounds(queue.organization_waiting, queue.organization_active, organization_limit),
    )
    pause_ms = 0 if paused_ms is None else max(paused_ms, typical_duration_ms)
    return pause_ms + rounds * typical_duration_ms


def _rounds(waiting: int, active: int, slots: int) -> int:
    """How many rounds of jobs must finish before one more gets a slot."""
    missing = waiting + 1 - max(slots - active, 0)
    return 0 if missing <= 0 else -(-missing // slots)

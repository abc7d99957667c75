"""Estimates how long until a new job starts, from the queue, the workers and the plan. Pure."""

import msgspec

from agentjobs.jobs.acceptance import Admission
from agentjobs.jobs.queue.fleet import FleetState
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans


class QueueState(msgspec.Struct, frozen=True):
    """The jobs ahead of a new one. `waiting` excludes jobs that their plans hold back anyway."""

    waiting: int
    active: int
    organization_waiting: int
    organization_active: int


def estimate_start(
    plans: Plans, caller: Caller, fleet: FleetState, admission: Admission, agent: str
) -> int:
    tags = msgspec.json.decode(admission.required_tags or "[]", type=list[str])
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
    )


def estimated_start_ms(
    queue: QueueState, *, slots: int, organization_limit: int, typical_duration_ms: int
) -> int:
    """0 when a slot is free now; otherwise the later of the workers' and the plan's estimate."""
    rounds = max(
        _rounds(queue.waiting, queue.active, max(slots, 1)) if slots else queue.waiting + 1,
        _rounds(queue.organization_waiting, queue.organization_active, organization_limit),
    )
    return rounds * typical_duration_ms


def _rounds(waiting: int, active: int, slots: int) -> int:
    """How many rounds of jobs must finish before one more gets a slot."""
    missing = waiting + 1 - max(slots - active, 0)
    return 0 if missing <= 0 else -(-missing // slots)

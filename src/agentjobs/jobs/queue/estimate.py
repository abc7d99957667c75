"""How long until a new job starts: a pure guess from the queue, the workers and the plan."""

import msgspec


class QueueState(msgspec.Struct, frozen=True):
    """What lies before a new job: `waiting` leaves out what other plans hold back anyway."""

    waiting: int
    active: int
    organization_waiting: int
    organization_active: int


def estimated_start_ms(
    queue: QueueState, *, slots: int, organization_limit: int, typical_duration_ms: int
) -> int:
    """0 when a slot is free for it now; the later of the workers' and the plan's turn otherwise."""
    turns = max(
        _turns(queue.waiting, queue.active, max(slots, 1)) if slots else queue.waiting + 1,
        _turns(queue.organization_waiting, queue.organization_active, organization_limit),
    )
    return turns * typical_duration_ms


def _turns(waiting: int, active: int, places: int) -> int:
    """How many rounds of finished jobs pass before one more finds a place."""
    short_of = waiting + 1 - max(places - active, 0)
    return 0 if short_of <= 0 else -(-short_of // places)

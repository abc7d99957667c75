"""What an agent did, step by step, as its own events report it. Does not store anything."""

from typing import Any, Literal

import msgspec

StepKind = Literal["read", "change", "command", "message", "model", "other"]
StepState = Literal["running", "succeeded", "failed", "unfinished"]

_MAX_DURATION_MS = 366 * 86_400_000


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is the agent's name for a step that takes time: a later step with the same key, and
    possibly without a title, completes the one that is `running`."""

    kind: StepKind = "other"
    title: str = ""
    detail: str = ""
    state: StepState = "succeeded"
    key: str = ""
    exit_code: int | None = None
    # None if it is not known: then the worker measures a step with a key.
    started_at: int | None = None
    duration_ms: int | None = None
    cost_nanousd: int | None = None


class StoredStep(msgspec.Struct, frozen=True, kw_only=True):
    """Sequence numbers start with 1, in the order in which the worker learned of the steps."""

    sequence: int
    started_at: int
    kind: StepKind
    title: str
    detail: str = ""
    state: StepState
    exit_code: int | None = None
    duration_ms: int | None = None
    cost_nanousd: int | None = None


def to_state(*, failed: bool) -> StepState:
    return "failed" if failed else "succeeded"


def to_exit_code(value: Any) -> int | None:
    """None for anything that no process can end with."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -(2**31) <= value < 2**32 else None


def to_duration(start_ms: Any, end_ms: Any) -> int | None:
    """None if the times of an agent cannot be true."""
    if not isinstance(start_ms, int | float) or not isinstance(end_ms, int | float):
        return None
    try:
        duration = end_ms - start_ms
    except OverflowError:
        # An integer of hundreds of digits, less a fraction.
        return None
    return int(duration) if 0 <= duration <= _MAX_DURATION_MS else None

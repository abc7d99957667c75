"""What follows from an attempt: a retry, and when; or the end."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from agentjobs.webhooks.model import Attempt, DeliveryStatus, DisabledReason
from agentjobs_runtime.clock import SECOND_MS

JITTER = 0.2
# How far `Retry-After` can lengthen a wait.
MAX_RETRY_AFTER_FACTOR = 2
_GONE = 410


class AttemptOutcome(msgspec.Struct, frozen=True):
    status: DeliveryStatus
    # The time of the next attempt, while the delivery is pending.
    due_at: int | None = None
    disable: DisabledReason | None = None


def decide_outcome(
    attempt: Attempt, failures: int, retry_seconds: Sequence[float], jitter: float | None = None
) -> AttemptOutcome:
    """`failures` precede this attempt; `jitter` is between -1 and 1, random by default."""
    if attempt.succeeded:
        return AttemptOutcome("delivered")
    if attempt.status_code == _GONE:
        return AttemptOutcome("failed", disable="gone")
    if failures >= len(retry_seconds):
        return AttemptOutcome("failed")
    spread = random.uniform(-1, 1) if jitter is None else jitter  # noqa: S311 - no secret
    wait = retry_seconds[failures] * (1 + JITTER * spread)
    ended_at = attempt.at + attempt.duration_ms
    max_wait = retry_seconds[failures] * MAX_RETRY_AFTER_FACTOR
    requested = min(_retry_after_seconds(attempt, ended_at), max_wait)
    return AttemptOutcome("pending", due_at=ended_at + round(max(wait, requested) * SECOND_MS))


def _retry_after_seconds(attempt: Attempt, now: int) -> float:
    """0 if the receiver sent no valid `Retry-After`."""
    text = (attempt.response_header("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        # A number with too many digits is capped by the caller.
        return float(text[:12]) if len(text) <= 12 else float("inf")
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now / SECOND_MS, UTC)).total_seconds())

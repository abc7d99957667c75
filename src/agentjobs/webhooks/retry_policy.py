"""What follows from an attempt: delivered, tried again at some time, or given up. Pure."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from agentjobs.clock import SECOND_MS
from agentjobs.webhooks.model import Attempt, DeliveryStatus, DisabledReason

JITTER = 0.2
_MOST_LENGTHENING = 2
_GONE = 410


class Verdict(msgspec.Struct, frozen=True):
    status: DeliveryStatus
    # When it is tried again, while it is pending.
    due_at: int | None = None
    disable: DisabledReason | None = None


def judge(
    attempt: Attempt, failures: int, retry_seconds: Sequence[float], jitter: float | None = None
) -> Verdict:
    """`failures` came before this attempt; `jitter` is between -1 and 1, by chance if not given."""
    if attempt.succeeded:
        return Verdict("delivered")
    if attempt.status_code == _GONE:
        return Verdict("failed", disable="gone")
    if failures >= len(retry_seconds):
        return Verdict("failed")
    spread = random.uniform(-1, 1) if jitter is None else jitter  # noqa: S311 - no secret
    wait = retry_seconds[failures] * (1 + JITTER * spread)
    ended_at = attempt.at + attempt.duration_ms
    asked = min(_asked_wait(attempt, ended_at), retry_seconds[failures] * _MOST_LENGTHENING)
    return Verdict("pending", due_at=ended_at + round(max(wait, asked) * SECOND_MS))


def _asked_wait(attempt: Attempt, now: int) -> float:
    """Seconds that the receiver asked for; 0 when it did not, or cannot be understood."""
    text = (attempt.response_header("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        # A number too long to be a time is a long time.
        return float(text[:12]) if len(text) <= 12 else float("inf")
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now / SECOND_MS, UTC)).total_seconds())

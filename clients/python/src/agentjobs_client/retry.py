"""Decides whether and when a failed call is retried. The clients do the waiting."""

import random
import time
from collections.abc import Callable

from agentjobs_client.errors import (
    ApiError,
    ClientError,
    ServiceUnreachable,
    TlsFailed,
    UnexpectedAnswer,
)

Clock = Callable[[], float]

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_RETRIES = 4
# Longer than a service needs to drain, stop and start again.
DEFAULT_AWAY_SECONDS = 120.0
_MAX_DELAY_SECONDS = 30.0
# `idempotency_in_progress` means that the first copy of the call is still running. A full queue
# is left to the caller.
_RETRYABLE_CODES = frozenset({"rate_limited", "unavailable", "idempotency_in_progress"})
_RETRYABLE_STATUSES = frozenset({502, 503, 504})


class RetryState:
    """Counts consecutive failures, limited by their number or by how long they last.

    The time limit applies only once the service has responded, so that a wrong address fails soon.
    """

    def __init__(
        self,
        *,
        retries: int = DEFAULT_RETRIES,
        away_seconds: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.failures = 0
        self._retries = retries
        self._away_seconds = away_seconds
        self._is_known = False
        self._clock = clock
        self._away_since = 0.0

    def record_success(self) -> None:
        self.failures = 0
        self._is_known = True

    def delay_after(self, error: ClientError) -> float:
        """Seconds until the next attempt. Raises the error if no retry is left."""
        now = self._clock()
        # An error in the service's format proves that the service responded.
        self._is_known = self._is_known or isinstance(error, ApiError)
        if not self.failures:
            self._away_since = now
        pause = retry_delay(error, self.failures)
        if pause is None or self._is_exhausted(now + pause):
            raise error
        self.failures += 1
        return pause

    def _is_exhausted(self, next_try_at: float) -> bool:
        if self._away_seconds is None or not self._is_known:
            return self.failures >= self._retries
        return next_try_at - self._away_since > self._away_seconds


def retry_delay(error: ClientError, failures: int) -> float | None:
    """Seconds until the same call may succeed; None if it never will."""
    if not _is_retryable(error):
        return None
    # The exponent is bounded, because many failures would overflow a float.
    backoff = min(0.2 * float(2 ** min(failures, 10)), 5.0) * _jitter(0.5, 1.0)
    if isinstance(error, ApiError | UnexpectedAnswer):
        backoff = max(backoff, error.retry_after_seconds or 0.0)
    return min(backoff, _MAX_DELAY_SECONDS)


def poll_delay() -> float:
    """Seconds between two polls that returned without a change."""
    return _jitter(0.75, 1.25)


def _is_retryable(error: ClientError) -> bool:
    match error:
        case TlsFailed():
            return False
        case ServiceUnreachable():
            return True
        case ApiError():
            return error.code in _RETRYABLE_CODES or error.status in _RETRYABLE_STATUSES
        case UnexpectedAnswer():
            return error.status == 429 or error.status in _RETRYABLE_STATUSES
    return False


def _jitter(minimum: float, maximum: float) -> float:
    return random.uniform(minimum, maximum)  # noqa: S311 - spreads clients, not a secret

"""When a failed call is made again, and when it is given up. Waits for nothing itself."""

import random
import time
from collections.abc import Callable

from agentjobs_client.errors import ApiError, ClientError, ServiceUnreachable, UnexpectedAnswer

Clock = Callable[[], float]

DEFAULT_RETRIES = 4
# Longer than a service takes to finish its work, stop and start again.
DEFAULT_AWAY_SECONDS = 120.0
_LONGEST_PAUSE_SECONDS = 30.0
# Refusals that pass by themselves. `idempotency_in_progress` is the second copy of a call that
# still runs; a full queue is not among them, for the caller may have better things to do.
_PASSING_CODES = frozenset({"rate_limited", "unavailable", "idempotency_in_progress"})
_PASSING_STATUSES = frozenset({502, 503, 504})


class Patience:
    """Counts the failures in a row, bounded by their number or by the time they last.

    Time counts only for a service that answered before: a wrong address is told soon.
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

    def answered(self) -> None:
        self.failures = 0
        self._is_known = True

    def pause_after(self, error: ClientError) -> float:
        """Seconds until the next try; raises the error when trying again is no use."""
        now = self._clock()
        # A refusal in our own form is an answer of the service too.
        self._is_known = self._is_known or isinstance(error, ApiError)
        if not self.failures:
            self._away_since = now
        pause = pause_before_repeat(error, self.failures)
        if pause is None or self._is_used_up(now + pause):
            raise error
        self.failures += 1
        return pause

    def _is_used_up(self, next_try_at: float) -> bool:
        if self._away_seconds is None or not self._is_known:
            return self.failures >= self._retries
        return next_try_at - self._away_since > self._away_seconds


def pause_before_repeat(error: ClientError, failures: int) -> float | None:
    """Seconds to wait before the same call may succeed; None when it never will."""
    if not _passes(error):
        return None
    # The exponent is bounded too: a call may fail often enough to overflow a float.
    backoff = min(0.2 * float(2 ** min(failures, 10)), 5.0) * _jitter(0.5, 1.0)
    if isinstance(error, ApiError | UnexpectedAnswer):
        backoff = max(backoff, error.retry_after_seconds or 0.0)
    return min(backoff, _LONGEST_PAUSE_SECONDS)


def pause_before_asking_again() -> float:
    """Seconds to wait when the service answers, but sooner than there was news to tell."""
    return _jitter(0.75, 1.25)


def _passes(error: ClientError) -> bool:
    match error:
        case ServiceUnreachable():
            return True
        case ApiError():
            return error.code in _PASSING_CODES or error.status in _PASSING_STATUSES
        case UnexpectedAnswer():
            return error.status == 429 or error.status in _PASSING_STATUSES
    return False


def _jitter(least: float, most: float) -> float:
    return random.uniform(least, most)  # noqa: S311 - spreads clients, keeps no secret

"""Calls that are repeated until something happens, as states without I/O."""

import math
from datetime import timedelta
from typing import Protocol, TypeVar

import msgspec

from agentjobs_client import calls
from agentjobs_client.call import Call
from agentjobs_client.errors import ClientError, WaitTimeout
from agentjobs_client.models.jobs import EventPage, Job
from agentjobs_client.retry import Clock, RetryState, poll_delay

T = TypeVar("T")
Timeout = float | timedelta
# Time for the response to arrive once the service has stopped waiting.
_GRACE_SECONDS = 5.0


class Poll(Protocol[T]):
    @property
    def ended(self) -> bool: ...

    def next_call(self) -> Call[T]: ...

    def update(self, response: T) -> bool:
        """Store the response; returns whether the caller should get it."""

    def delay(self) -> float:
        """Seconds until the next call after a response without news."""

    def delay_after(self, error: ClientError) -> float:
        """Seconds until the next attempt. Raises the error if no retry is left."""


class JobWatch:
    """The job after each change of its status, or with `final` only once it is finished."""

    def __init__(
        self,
        job_id: str,
        retry: RetryState,
        clock: Clock,
        *,
        final: bool = False,
        timeout: Timeout | None = None,
    ) -> None:
        self._job_id = job_id
        self._retry = retry
        self._clock = clock
        self._final = final
        self._timeout_seconds = _seconds(timeout)
        self._deadline = clock() + self._timeout_seconds
        self._job: Job | None = None
        self._has_changed = False
        self._asked_at = 0.0
        self._wait_seconds = 0.0

    @property
    def ended(self) -> bool:
        return self._job is not None and self._job.is_finished

    def next_call(self) -> Call[Job]:
        self._asked_at = self._clock()
        remaining = max(0.0, self._deadline - self._asked_at)
        if self._job is None:
            # Returns at once. Once the service has responded, it may restart.
            call = calls.get_job(self._job_id)
        else:
            self._wait_seconds = min(calls.MAX_WAIT_SECONDS, remaining)
            wait_for = "final" if self._final else None
            call = calls.get_job(self._job_id, self._wait_seconds, wait_for)
        return msgspec.structs.replace(call, limit_seconds=remaining + _GRACE_SECONDS)

    def update(self, response: Job) -> bool:
        self._retry.record_success()
        before, self._job = self._job, response
        self._has_changed = before is None or before.status != response.status
        return response.is_finished if self._final else self._has_changed

    def delay(self) -> float:
        now = self._clock()
        if self._job and now >= self._deadline:
            raise WaitTimeout(self._job, self._timeout_seconds)
        # An older service responds to each change.
        if self._has_changed:
            return 0.0
        # A service that is shutting down responds without waiting.
        is_early = now - self._asked_at < max(1.0, self._wait_seconds) / 2
        return min(poll_delay(), self._deadline - now) if is_early else 0.0

    def delay_after(self, error: ClientError) -> float:
        delay = self._retry.delay_after(error)
        if self._clock() + delay < self._deadline:
            return delay
        if self._job is None:
            raise error
        raise WaitTimeout(self._job, self._timeout_seconds) from error


class EventFeed:
    """Pages of the organization's events; with `follow` it waits for new ones."""

    def __init__(
        self, cursor: str | None, retry: RetryState, clock: Clock, *, follow: bool
    ) -> None:
        self.ended = False
        self._cursor = cursor
        self._retry = retry
        self._clock = clock
        self._follow = follow
        self._is_current = False
        self._asked_at = 0.0

    def next_call(self) -> Call[EventPage]:
        self._asked_at = self._clock()
        waits = self._follow and self._is_current
        return calls.list_events(self._cursor, calls.MAX_WAIT_SECONDS if waits else 0)

    def update(self, response: EventPage) -> bool:
        self._retry.record_success()
        self._cursor = response.next_cursor
        self._is_current = not (response.has_more and response.events)
        self.ended = self._is_current and not self._follow
        return bool(response.events) or self.ended

    def delay(self) -> float:
        waited = self._clock() - self._asked_at
        return poll_delay() if waited < calls.MAX_WAIT_SECONDS / 2 else 0.0

    def delay_after(self, error: ClientError) -> float:
        return self._retry.delay_after(error)


def _seconds(timeout: Timeout | None) -> float:
    if timeout is None:
        return math.inf
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not seconds >= 0:
        raise ValueError("the timeout must not be negative")
    return seconds

"""The state of reading one log, so that a new connection resumes where the last one stopped."""

from collections.abc import Iterator

import httpx

from agentjobs_client import calls
from agentjobs_client.call import Call
from agentjobs_client.errors import ClientError, ServiceUnreachable
from agentjobs_client.retry import DEFAULT_TIMEOUT_SECONDS, RetryState, poll_delay
from agentjobs_client.server_sent_events import EventParser

# The service sends keep-alives more often than this.
SILENCE_SECONDS = 60.0


class LogStream:
    def __init__(self, job_id: str, retry: RetryState, *, timestamps: bool = False) -> None:
        self.ended = False
        self._job_id = job_id
        self._timestamps = timestamps
        self._retry = retry
        self._last_event_id = ""
        self._parser = EventParser()

    @property
    def call(self) -> Call[str]:
        return calls.follow_logs(self._job_id, self._timestamps, self._last_event_id)

    @property
    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(DEFAULT_TIMEOUT_SECONDS, read=SILENCE_SECONDS)

    def feed(self, text: str) -> Iterator[str]:
        """The log text contained in `text`."""
        # Keep-alives count too: a proxy may repeatedly cut the connection of a silent job.
        self._retry.record_success()
        for event in self._parser.feed(text):
            self._last_event_id = event.id or self._last_event_id
            if event.event == "end":
                self.ended = True
            else:
                yield event.data

    def check_ended(self) -> None:
        if not self.ended:
            raise ServiceUnreachable("the service closed the log stream before its end")

    def delay_after(self, error: ClientError) -> float:
        """Seconds until the next attempt. Raises the error if no retry is left."""
        self._parser = EventParser()
        return max(self._retry.delay_after(error), poll_delay())

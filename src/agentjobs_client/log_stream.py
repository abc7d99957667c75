"""Where the reading of one log stands, so that a broken connection goes on where it stopped."""

from collections.abc import Iterator

import httpx

from agentjobs_client import calls
from agentjobs_client.errors import ClientError, ServiceUnreachable
from agentjobs_client.retry import Patience, pause_before_asking_again
from agentjobs_client.server_sent_events import EventParser

# The service sends a sign of life more often than this while a job is silent.
SILENCE_SECONDS = 60.0


class LogStream:
    def __init__(self, job_id: str, patience: Patience, *, timestamps: bool = False) -> None:
        self.ended = False
        self._job_id = job_id
        self._timestamps = timestamps
        self._patience = patience
        self._last_event_id = ""
        self._parser = EventParser()

    @property
    def call(self) -> calls.Call:
        return calls.follow_logs(self._job_id, self._timestamps, self._last_event_id)

    @property
    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(calls.DEFAULT_TIMEOUT_SECONDS, read=SILENCE_SECONDS)

    def feed(self, text: str) -> Iterator[str]:
        """The pieces of log that `text` brings."""
        # Any sign of life counts: a proxy may cut the connection to a silent job again and again.
        self._patience.answered()
        for event in self._parser.feed(text):
            self._last_event_id = event.id or self._last_event_id
            if event.event == "end":
                self.ended = True
            else:
                yield event.data

    def check_ended(self) -> None:
        if not self.ended:
            raise ServiceUnreachable("the service closed the log before its end")

    def pause_after(self, error: ClientError) -> float:
        """Seconds until the next try; raises the error when trying again is no use."""
        self._parser = EventParser()
        return max(self._patience.pause_after(error), pause_before_asking_again())

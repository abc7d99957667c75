"""Shows a job while a command waits for it: a line that changes on a terminal, notes elsewhere."""

import re
from typing import TYPE_CHECKING

from agentjobs.cli.jobs import text
from agentjobs.cli.live_line import can_show_line, clear_line, show_line
from agentjobs.cli.output import escape_line, print_note

if TYPE_CHECKING:
    from agentjobs_client import Client, ClientError, Job

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TAIL_BYTES = 2_000


class Progress:
    """A note on stderr for each change."""

    # How long the service may wait for a change before it responds.
    tick_seconds = 30.0

    def __init__(self, known_status: str | None) -> None:
        self._status = known_status
        self._reason: str | None = None
        self._is_away = False

    def close(self) -> None:
        """Called when the waiting has ended."""

    def show(self, job: "Job") -> None:
        if self._is_away:
            self._is_away = False
            self._note("The service responds again")
        reason = text.waiting_reason(job)
        if job.status != self._status or (reason is not None and reason != self._reason):
            self._note(f"{job.job_id} is {job.status}{f': {reason}' if reason else ''}")
        self._status, self._reason = job.status, reason

    def show_outage(self, error: "ClientError") -> None:
        if not self._is_away:
            self._is_away = True
            self._note(f"Trying again: {error}")

    def _note(self, note: str) -> None:
        print_note(note)


class LiveProgress(Progress):
    """The last line of the terminal follows the job."""

    tick_seconds = 1.0

    def __init__(self, known_status: str | None, client: "Client") -> None:
        super().__init__(known_status)
        self._client = client
        self._last_line = ""

    def close(self) -> None:
        clear_line()

    def show(self, job: "Job") -> None:
        super().show(job)
        if job.is_finished:
            return
        line = text.progress(job)
        if job.status == "running":
            self._read_last_line(job.job_id)
            line += f": {self._last_line}" if self._last_line else ""
        show_line(escape_line(line))

    def _read_last_line(self, job_id: str) -> None:
        from agentjobs_client import ClientError

        try:
            tail = "".join(self._client.logs(job_id, tail_bytes=_TAIL_BYTES))
        except ClientError:
            # The next response of the job says whether the service is away.
            return
        lines = [line for line in _COLOUR.sub("", tail).splitlines() if line.strip()]
        self._last_line = lines[-1] if lines else ""

    def _note(self, note: str) -> None:
        clear_line()
        super()._note(note)


def choose_progress(client: "Client", known_status: str | None) -> Progress:
    return LiveProgress(known_status, client) if can_show_line() else Progress(known_status)

"""Puts the time before every line of a log, over its pieces. Knows nothing of how it is sent."""

from collections.abc import Iterable

from agentjobs.clock import iso_utc
from agentjobs.jobs.model import LogChunk


class LineTimes:
    """A line has the time of the piece in which it began."""

    def __init__(self) -> None:
        self._is_inside_a_line = False

    def begin_after(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._is_inside_a_line = not text.endswith("\n")

    def stamped(self, chunk: LogChunk) -> str:
        if not chunk.text:
            return ""
        time = f"{iso_utc(chunk.created_at)} "
        first = "" if self._is_inside_a_line else time
        self.begin_after((chunk.text,))
        # Only between two lines: what follows the last line feed is for the next piece to say.
        return first + chunk.text[:-1].replace("\n", f"\n{time}") + chunk.text[-1]

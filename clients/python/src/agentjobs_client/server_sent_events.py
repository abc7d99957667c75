"""An incremental parser of server-sent events. Knows nothing about jobs or HTTP."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Only the standard's three line endings: `splitlines` would also split inside log text.
_LINE_END = re.compile(r"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    event: str
    data: str
    id: str


class EventParser:
    def __init__(self) -> None:
        self._unfinished = ""
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, text: str) -> Iterator[ServerSentEvent]:
        """The events that `text` completes."""
        buffer = self._unfinished + text
        # A trailing "\r" may be the first half of "\r\n".
        ready = len(buffer) - buffer.endswith("\r")
        start = 0
        for end in _LINE_END.finditer(buffer, 0, ready):
            event = self._line(buffer[start : end.start()])
            start = end.end()
            if event is not None:
                yield event
        self._unfinished = buffer[start:]

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._event = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        event, data = self._event or "message", self._data
        is_named = bool(self._event)
        self._event, self._data = "", []
        if not data and not is_named:
            return None
        return ServerSentEvent(event, "\n".join(data), self._id)

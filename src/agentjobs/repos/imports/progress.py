"""How far git is with a fetch, read from what it says while it works, and whether it gets on.

Knows neither git nor clocks: both are told to it.
"""

import re
from collections import deque

# Lines of the other side begin with "remote: ", so that nobody else can say these.
_PHASE = re.compile(rb"(Receiving objects|Resolving deltas): +(\d{1,3})%")
_MAX_REST_BYTES = 4096
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class ImportProgress:
    """Fed with pieces of git's stderr, in which a carriage return or a line feed ends a line."""

    def __init__(self) -> None:
        self._rest = b""
        self._phase = ""

    def note(self, piece: bytes) -> None:
        *lines, rest = re.split(rb"[\r\n]", self._rest + piece)
        self._rest = rest[:_MAX_REST_BYTES]
        for line in reversed(lines):
            if found := _PHASE.match(line):
                self._phase = f"{found[1].decode()}: {int(found[2])} %"
                return

    @property
    def has_everything(self) -> bool:
        """What is left is git's own work, for which nothing more has to come."""
        return self._phase.startswith("Resolving") or self._phase == "Receiving objects: 100 %"

    def words(self, received_bytes: int) -> str:
        if not received_bytes:
            return "Waiting for the server's answer"
        return f"{self._phase or 'The server prepares it'}, {_size(received_bytes)} received"


class Pace:
    """Whether what comes is still worth the place it takes: at least so much, on average of so
    many seconds. Somebody who sends a byte now and then would hold it for ever."""

    def __init__(self, bytes_per_second: int = 1024, seconds: float = 60.0) -> None:
        self.bytes_per_second = bytes_per_second
        self.seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """`now` in seconds of a clock that only goes on."""
        self._seen.append((now, received_bytes))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self.seconds:
            self._seen.popleft()
        began, before = self._seen[0]
        took = now - began
        return took >= self.seconds and received_bytes - before < self.bytes_per_second * took


def _size(number: int) -> str:
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} bytes"

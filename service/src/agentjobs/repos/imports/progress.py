"""The progress of a fetch, parsed from git's output, and the minimum transfer rate.

Pure: the caller passes in git's output and the time.
"""

import re
from collections import deque

# Git prefixes the server's own lines with "remote: ", so a server cannot forge these.
_PHASE = re.compile(rb"(Receiving objects|Resolving deltas): +(\d{1,3})%")
_MAX_PARTIAL_LINE_BYTES = 4096
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class ImportProgress:
    """Parses chunks of git's stderr, in which a carriage return or a line feed ends a line."""

    def __init__(self) -> None:
        self._partial_line = b""
        self._phase = ""

    def feed(self, chunk: bytes) -> None:
        *lines, partial_line = re.split(rb"[\r\n]", self._partial_line + chunk)
        self._partial_line = partial_line[:_MAX_PARTIAL_LINE_BYTES]
        for line in reversed(lines):
            if match := _PHASE.match(line):
                self._phase = f"{match[1].decode()}: {int(match[2])} %"
                return

    @property
    def is_transferred(self) -> bool:
        """True once only git's local processing remains."""
        return self._phase.startswith("Resolving") or self._phase == "Receiving objects: 100 %"

    def message(self, received_bytes: int) -> str:
        if not received_bytes:
            return "Waiting for the server"
        phase = self._phase or "The server is preparing the repository"
        return f"{phase}, {_size(received_bytes)} received"


class MinTransferRate:
    """A required average rate over a window of seconds. A server that trickles bytes would
    otherwise occupy an import slot forever."""

    def __init__(self, bytes_per_second: int = 1024, seconds: float = 60.0) -> None:
        self.bytes_per_second = bytes_per_second
        self.seconds = seconds
        self._samples: deque[tuple[float, int]] = deque()

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """`now` is in seconds of a monotonic clock."""
        self._samples.append((now, received_bytes))
        while len(self._samples) > 1 and self._samples[1][0] <= now - self.seconds:
            self._samples.popleft()
        started_at, received_before = self._samples[0]
        elapsed = now - started_at
        return (
            elapsed >= self.seconds
            and received_bytes - received_before < self.bytes_per_second * elapsed
        )


def _size(byte_count: int) -> str:
    for unit, name in _UNITS:
        if byte_count >= unit:
            return f"{byte_count / unit:.1f} {name}"
    return f"{byte_count} bytes"

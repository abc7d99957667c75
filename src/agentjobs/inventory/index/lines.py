"""What a line is: the decided rule behind `line_count`. Knows bytes, nothing of git or stores."""

BINARY_PROBE_BYTES = 8_000


class LineCounter:
    """Counts one file that arrives in pieces."""

    def __init__(self) -> None:
        self._newlines = 0
        self._probed = 0
        self._binary = False
        self._unterminated = False

    def add(self, piece: bytes) -> None:
        if self._binary or not piece:
            return
        if self._probed < BINARY_PROBE_BYTES:
            wanted = BINARY_PROBE_BYTES - self._probed
            self._binary = piece.find(b"\0", 0, wanted) >= 0
            self._probed += min(len(piece), wanted)
        self._newlines += piece.count(b"\n")
        self._unterminated = not piece.endswith(b"\n")

    @property
    def lines(self) -> int | None:
        """Newlines plus an unterminated last line; None for a binary file."""
        return None if self._binary else self._newlines + self._unterminated


def count_lines(blob: bytes) -> int | None:
    """The same of a whole file, without the detour: this is done for every file there is."""
    if blob.find(b"\0", 0, BINARY_PROBE_BYTES) >= 0:
        return None
    lines = blob.count(b"\n")
    return lines if not blob or blob.endswith(b"\n") else lines + 1

"""How far git is with a fetch, read from what it says while it works."""

import re

# Lines of the other side begin with "remote: ", so that nobody else can say these.
_PHASE = re.compile(rb"(Receiving objects|Resolving deltas): +(\d{1,3})%")
_MOST_REST_BYTES = 4096
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class ImportProgress:
    """Fed with pieces of git's stderr, in which a carriage return or a line feed ends a line."""

    def __init__(self) -> None:
        self._rest = b""
        self._phase = ""

    def note(self, piece: bytes) -> None:
        *lines, rest = re.split(rb"[\r\n]", self._rest + piece)
        self._rest = rest[:_MOST_REST_BYTES]
        for line in reversed(lines):
            if found := _PHASE.match(line):
                self._phase = f"{found[1].decode()}: {int(found[2])} %"
                return

    def words(self, received_bytes: int) -> str:
        if not received_bytes:
            return "Waiting for the server's answer"
        return f"{self._phase or 'The server prepares it'}, {_size(received_bytes)} received"


def _size(number: int) -> str:
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} bytes"

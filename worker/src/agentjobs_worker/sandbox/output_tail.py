"""The end of an agent's output, made safe to display. Pure text, no processes."""

import re

from agentjobs_runtime.safe_text import strip_control_characters, strip_escape_sequences

MAX_BYTES = 16 * 1024
MAX_LINES = 20
MAX_CHARACTERS = 4 * 1024

_SPACE = re.compile(r"\s")


class OutputTail:
    """Keeps the last bytes of a stream of any length."""

    def __init__(self) -> None:
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        self._tail = (self._tail + chunk)[-MAX_BYTES:]

    def last_lines(self) -> str:
        return last_lines(self._tail)


def last_lines(output: bytes) -> str:
    """At most 20 lines and 4,096 characters, without control characters or invalid UTF-8."""
    text = strip_escape_sequences(output.decode("utf-8", "replace"))
    lines = [_printable(line) for line in text.rstrip().split("\n")[-MAX_LINES:]]
    return _truncate("\n".join(lines)).strip()


def _truncate(text: str) -> str:
    """Cuts between words only: half a secret would not be redacted."""
    if len(text) <= MAX_CHARACTERS:
        return text
    start = _SPACE.search(text, len(text) - MAX_CHARACTERS)
    return "" if start is None else text[start.end() :]


def _printable(line: str) -> str:
    # A progress bar overwrites itself; show only its last state.
    final = line.rstrip("\r").rpartition("\r")[2].rstrip()
    return strip_control_characters(final).replace("\t", " ")

"""The end of an agent's output, made safe to show to a person. Pure text, no processes."""

import re

from agentjobs.safe_text import strip_control_characters, strip_escape_sequences

KEPT_BYTES = 16 * 1024
SHOWN_LINES = 20
SHOWN_CHARACTERS = 4 * 1024

_SPACE = re.compile(r"\s")


class Tail:
    """Remembers the last bytes of a stream, however long it is."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, chunk: bytes) -> None:
        self._kept = (self._kept + chunk)[-KEPT_BYTES:]

    def last_lines(self) -> str:
        return last_lines(self._kept)


def last_lines(output: bytes) -> str:
    """At most 20 lines and 4,096 characters, without control characters or invalid UTF-8."""
    text = strip_escape_sequences(output.decode("utf-8", "replace"))
    lines = [_printable(line) for line in text.rstrip().split("\n")[-SHOWN_LINES:]]
    return _cut("\n".join(lines)).strip()


def _cut(text: str) -> str:
    """Never inside a word: half a secret would not be known for one."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    start = _SPACE.search(text, len(text) - SHOWN_CHARACTERS)
    return "" if start is None else text[start.end() :]


def _printable(line: str) -> str:
    # A progress bar draws over itself: only its last state was meant to stay.
    final = line.rstrip("\r").rpartition("\r")[2].rstrip()
    return strip_control_characters(final).replace("\t", " ")

"""Decodes an agent's output to text that cannot control a terminal or imitate the service's notes.

The result does not depend on how the bytes are split into pieces.
"""

import codecs
import re

from agentjobs_runtime.safe_text import CONTROL_CHARACTERS, REPLACEMENT

SERVICE_MARKER = "[agentjobs]"

# Colour sequences are kept. Other control characters and those that reorder text are replaced.
_COLOUR = r"\x1b\[[0-9;]{0,32}m"
# Both patterns begin with a character class, which makes searching fast.
_UNSAFE = re.compile(
    rf"[{CONTROL_CHARACTERS}\u202a-\u202e\u2066-\u2069]"
    r"(?:(?<!\x1b)|(?!\[[0-9;]{0,32}m))"
)
_UNFINISHED_COLOUR = re.compile(r"\x1b(?:\[[0-9;]{0,32})?\Z")

_INVISIBLE_CHARACTERS = r"\xad\u200b-\u200f\u2060-\u2064\ufeff"
_INVISIBLE = rf"(?:{_COLOUR}|[{_INVISIBLE_CHARACTERS}])*"
_FORGED_MARKER = re.compile(
    rf"[\r\n](?=[\[\x1b{_INVISIBLE_CHARACTERS}])"
    + "".join(_INVISIBLE + re.escape(character) for character in SERVICE_MARKER)
)


def _any_prefix(marker: str) -> str:
    return _INVISIBLE + (f"(?:{re.escape(marker[0])}{_any_prefix(marker[1:])})?" if marker else "")


_PARTIAL_MARKER = re.compile(_any_prefix(SERVICE_MARKER[:-1]))


def service_line(text: str) -> str:
    """A note of the service, which may quote untrusted text."""
    return _UNSAFE.sub(REPLACEMENT, " ".join(text.split()))


class LogDecoder:
    """Puts a backslash into the marker of an agent's line that imitates a note of the service."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        # The part of the marker read since the line began; None after other text.
        self._marker_prefix: str | None = ""

    def feed(self, data: bytes) -> str:
        return self._sanitize(self._decoder.decode(data), is_last=False)

    def end(self) -> str:
        """Return what was held back: an incomplete character or colour sequence."""
        text = self._sanitize(self._decoder.decode(b"", final=True), is_last=True)
        self._decoder.reset()
        return text

    def begin_line(self) -> None:
        """Called after a note of the service was written in between."""
        self._marker_prefix = ""

    def _sanitize(self, text: str, *, is_last: bool) -> str:
        text = self._held + text
        unfinished = None if is_last else _UNFINISHED_COLOUR.search(text)
        ready = unfinished.start() if unfinished else len(text)
        self._held = text[ready:]
        return self._escape_markers(_UNSAFE.sub(REPLACEMENT, text[:ready]))

    def _escape_markers(self, text: str) -> str:
        before = "" if self._marker_prefix is None else "\n" + self._marker_prefix
        whole = before + text
        if SERVICE_MARKER[0] in whole:
            whole = _FORGED_MARKER.sub(_with_backslash, whole)
        _, line_break, line = whole.replace("\r", "\n").rpartition("\n")
        is_partial = bool(line_break) and _PARTIAL_MARKER.fullmatch(line)
        self._marker_prefix = re.sub(_COLOUR + r"|[^\[\]a-z]", "", line) if is_partial else None
        return whole[len(before) :]


def _with_backslash(match: re.Match[str]) -> str:
    return match[0][:-1] + "\\" + match[0][-1]

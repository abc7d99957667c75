"""Turns an agent's bytes into text that can neither drive a terminal nor pass for the service's.

However the bytes are cut into pieces, the same text comes out.
"""

import codecs
import re

from agentjobs.safe_text import CONTROL_CHARACTERS, REPLACEMENT

SERVICE_MARK = "[agentjobs]"

# Colour sequences stay for those who show them; everything else that could drive a terminal, or
# show text in another order than it has, goes.
_COLOUR = r"\x1b\[[0-9;]{0,32}m"
# Both patterns begin with a class of letters: only so does a search skip over the others quickly.
_UNSAFE = re.compile(
    rf"[{CONTROL_CHARACTERS}\u202a-\u202e\u2066-\u2069]"
    r"(?:(?<!\x1b)|(?!\[[0-9;]{0,32}m))"
)
_UNFINISHED_COLOUR = re.compile(r"\x1b(?:\[[0-9;]{0,32})?\Z")

_UNSEEN_LETTERS = r"\xad\u200b-\u200f\u2060-\u2064\ufeff"
_UNSEEN = rf"(?:{_COLOUR}|[{_UNSEEN_LETTERS}])*"
_FORGED_MARK = re.compile(
    rf"[\r\n](?=[\[\x1b{_UNSEEN_LETTERS}])"
    + "".join(_UNSEEN + re.escape(each) for each in SERVICE_MARK)
)


def _any_start_of(mark: str) -> str:
    return _UNSEEN + (f"(?:{re.escape(mark[0])}{_any_start_of(mark[1:])})?" if mark else "")


_BEGUN_MARK = re.compile(_any_start_of(SERVICE_MARK[:-1]))


def service_line(text: str) -> str:
    """A line of the service itself, which may quote what somebody else wrote."""
    return _UNSAFE.sub(REPLACEMENT, " ".join(text.split()))


class LogDecoder:
    """An agent's line that begins like the service's own gets a backslash into the mark."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._begun: str | None = ""  # of the mark, since the line began; None: of other text

    def feed(self, data: bytes) -> str:
        return self._safe(self._decoder.decode(data), is_last=False)

    def end(self) -> str:
        """What was held back: an unfinished letter or colour sequence."""
        text = self._safe(self._decoder.decode(b"", final=True), is_last=True)
        self._decoder.reset()
        return text

    def begin_line(self) -> None:
        """Somebody else wrote a line in between."""
        self._begun = ""

    def _safe(self, text: str, *, is_last: bool) -> str:
        text = self._held + text
        unfinished = None if is_last else _UNFINISHED_COLOUR.search(text)
        ready = unfinished.start() if unfinished else len(text)
        self._held = text[ready:]
        return self._unforged(_UNSAFE.sub(REPLACEMENT, text[:ready]))

    def _unforged(self, text: str) -> str:
        before = "" if self._begun is None else "\n" + self._begun
        whole = before + text
        if SERVICE_MARK[0] in whole:
            whole = _FORGED_MARK.sub(_with_backslash, whole)
        _, line_break, line = whole.replace("\r", "\n").rpartition("\n")
        is_begun = bool(line_break) and _BEGUN_MARK.fullmatch(line)
        self._begun = re.sub(_COLOUR + r"|[^\[\]a-z]", "", line) if is_begun else None
        return whole[len(before) :]


def _with_backslash(found: re.Match[str]) -> str:
    return found[0][:-1] + "\\" + found[0][-1]

"""Reads an agent that prints one JSON object a line, and writes a log that people can follow.

What is no such object passes as it is. Nothing here is trusted: an agent may print anything.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentjobs.agents.run_watcher import Watch
from agentjobs.sandbox.output_tail import OutputTail
from agentjobs.sandbox.protocol import SandboxReport

MOST_EVENT_BYTES = 4 * 1024 * 1024
SHOWN_CHARACTERS = 2_000
# Of the texts in lists of blocks; what is nested deeper is none.
TEXT_DEPTH = 8

_LEFT_OUT = b"[an event of more than 4 MiB is left out]\n"

Event = Mapping[str, Any]


class EventWatch(Watch):
    """A subclass says what an event reads like, and remembers what it says of the outcome."""

    def __init__(self) -> None:
        self._held = bytearray()
        # Of a line whose beginning is dealt with: is its rest shown, or left out?
        self._shows_rest: bool | None = None
        self._tail = OutputTail()

    def shown(self, event: Event) -> str:
        raise NotImplementedError

    def last_lines(self, report: SandboxReport) -> str:  # noqa: ARG002 - its lines are raw events
        return self._tail.last_lines()

    def feed(self, data: bytes) -> bytes:
        shown = self._continued(data) if self._held else self._begun(data)
        self._tail.add(shown)
        return shown

    def end(self) -> bytes:
        shown = self._line(self._taken()) if self._held else b""
        self._tail.add(shown)
        return shown

    def _continued(self, data: bytes) -> bytes:
        """Looks at no byte of the held line again before its end, however small the pieces."""
        rest, newline, others = data.partition(b"\n")
        if not newline:
            return self._hold(rest)
        self._held += rest + newline
        return self._line(self._taken()) + self._begun(others)

    def _begun(self, data: bytes) -> bytes:
        if self._holds_no_event(data):
            # Whole: a flood of short lines, one by one, would hold up everybody else.
            self._shows_rest = None if data.endswith(b"\n") else True
            return data
        *lines, rest = data.split(b"\n")
        shown = b"".join(self._line(line + b"\n") for line in lines)
        return shown + self._unfinished(rest)

    def _hold(self, data: bytes) -> bytes:
        self._held += data
        if len(self._held) <= MOST_EVENT_BYTES:
            return b""
        self._taken()
        self._shows_rest = False
        return _LEFT_OUT

    def _taken(self) -> bytes:
        held, self._held = self._held, bytearray()
        return bytes(held)

    def _holds_no_event(self, data: bytes) -> bool:
        if self._shows_rest is False or b"\n{" in data or not data:
            return False
        return self._shows_rest is True or not data.startswith(b"{")

    def _line(self, line: bytes) -> bytes:
        shows_rest, self._shows_rest = self._shows_rest, None
        if shows_rest is not None:
            return line if shows_rest else b""
        event = _event(line)
        if event is None:
            return line
        try:
            text = self.shown(event).strip("\n")
        except RecursionError:
            return line
        return f"{text}\n".encode(errors="replace") if text.strip() else b""

    def _unfinished(self, rest: bytes) -> bytes:
        """Only what may become an event waits for its end."""
        if self._shows_rest is None and rest.startswith(b"{"):
            return self._hold(rest)
        if rest and self._shows_rest is None:
            self._shows_rest = True
        return rest if self._shows_rest else b""


def _event(line: bytes) -> Event | None:
    if not line.startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def text_of(value: Any) -> str:
    """A text, or the texts in a list of blocks."""
    return "\n".join(filter(None, _texts(value, TEXT_DEPTH)))


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for each in value:
            yield from _texts(each, depth - 1)
    elif isinstance(value, dict) and depth:
        yield from _texts(value.get("text"), depth - 1)


def shortened(value: Any) -> str:
    """A text, or anything else as JSON, cut to what a person wants to see of it."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = text.strip()
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]} … ({len(text) - SHOWN_CHARACTERS} characters more)"


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def objects_in(value: Any) -> Iterator[Event]:
    """The objects of a list; nothing of anything else."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def object_at(event: Event, name: str) -> Event:
    found = event.get(name)
    return found if isinstance(found, dict) else {}

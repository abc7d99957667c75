"""Turns the output of an agent that prints one JSON object per line into a readable log.

Other lines pass unchanged. Trusts nothing, because an agent may print anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from agentjobs_runtime.agents.steps import Step
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.sandbox.output_tail import OutputTail
from agentjobs_worker.sandbox.protocol import SandboxReport

MAX_EVENT_BYTES = 4 * 1024 * 1024
# Parsing a million empty lists would block the event loop for a second.
MAX_EVENT_VALUES = 20_000
MAX_CHARACTERS = 2_000
# Text nested deeper in lists of blocks is ignored.
MAX_TEXT_DEPTH = 8
# More of one event are ignored: a million empty ones would block the event loop for seconds.
MAX_BLOCKS = 200

_OMITTED = b"[an event of more than 4 MiB is omitted]\n"
_NOT_READ = Step(title=f"A line with more than {MAX_EVENT_VALUES:,} values is only in the log.")

Event = Mapping[str, Any]
_SEPARATORS = b",[{"


class EventWatcher(RunWatcher):
    """The log has the steps that subclasses find in events, and their notes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._values = ValueCounter()
        # For a line whose start was handled: whether the rest is shown or omitted.
        self._shows_rest: bool | None = None
        self._tail = OutputTail()

    def read_steps(self, event: Event) -> Iterable[Step]:
        raise NotImplementedError

    def note(self, event: Event) -> str:
        """Record what the event says about the outcome. Returns a line for the log, or nothing."""
        raise NotImplementedError

    def last_lines(self, report: SandboxReport) -> str:  # noqa: ARG002 - its lines are raw events
        return self._tail.last_lines()

    def feed(self, data: bytes) -> bytes:
        text = self._continue_line(data) if self._buffer else self._start_lines(data)
        self._tail.add(text)
        return text

    def end(self) -> bytes:
        text = self._format_line(self._take_buffer()) if self._buffer else b""
        self._tail.add(text)
        return text

    def _continue_line(self, data: bytes) -> bytes:
        """Reads each byte of the buffered line once, however small the chunks."""
        rest, newline, others = data.partition(b"\n")
        text = self._buffer_line(rest)
        if not newline:
            return text
        return text + self._format_line(self._take_buffer() + newline) + self._start_lines(others)

    def _start_lines(self, data: bytes) -> bytes:
        if self._has_no_event(data):
            # As a whole: handling a flood of short lines one by one would block the event loop.
            self._shows_rest = None if data.endswith(b"\n") else True
            return data
        *lines, rest = data.split(b"\n")
        text = b"".join(self._format_line(line + b"\n") for line in lines)
        return text + self._start_partial_line(rest)

    def _buffer_line(self, data: bytes) -> bytes:
        self._buffer += data
        self._values.feed(data)
        if len(self._buffer) > MAX_EVENT_BYTES:
            self._take_buffer()
            self._shows_rest = False
            return _OMITTED
        if self._values.count > MAX_EVENT_VALUES:
            self._report(_NOT_READ)
            self._shows_rest = True
            return self._take_buffer()
        return b""

    def _take_buffer(self) -> bytes:
        buffered, self._buffer, self._values = self._buffer, bytearray(), ValueCounter()
        return bytes(buffered)

    def _has_no_event(self, data: bytes) -> bool:
        if self._shows_rest is False or b"\n{" in data or not data:
            return False
        return self._shows_rest is True or not data.startswith(b"{")

    def _format_line(self, line: bytes) -> bytes:
        shows_rest, self._shows_rest = self._shows_rest, None
        if shows_rest is not None:
            return line if shows_rest else b""
        event = _parse_event(line)
        if event is None:
            return line
        try:
            text = self._format_event(event).strip("\n")
        except RecursionError:
            return line
        return f"{text}\n".encode(errors="replace") if text.strip() else b""

    def _format_event(self, event: Event) -> str:
        lines = [self.note(event)]
        for step in self.read_steps(event):
            self._report(step)
            lines.append(_format_step(step))
        return "\n".join(filter(None, lines))

    def _report(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)

    def _start_partial_line(self, rest: bytes) -> bytes:
        """Only a possible event waits for its end."""
        if self._shows_rest is None and rest.startswith(b"{"):
            return self._buffer_line(rest)
        if rest and self._shows_rest is None:
            self._shows_rest = True
        return rest if self._shows_rest else b""


def _parse_event(line: bytes) -> Event | None:
    if not line.startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _format_step(step: Step) -> str:
    """A step that has started before only adds its details."""
    if step.kind == "message":
        return step.detail or step.title
    kind = f"{step.kind} " if step.kind in ("read", "change") else ""
    has_started = step.key and step.state != "running"
    title = "" if has_started else f"> {kind}{truncate(step.title)}"
    exit_code = f"  exit code {step.exit_code}" if step.exit_code else ""
    return "\n".join(filter(None, (title, _indent(truncate(step.detail)), exit_code)))


def to_text(value: Any) -> str:
    """A string, or the strings in a list of blocks."""
    return "\n".join(filter(None, islice(_texts(value, MAX_TEXT_DEPTH), MAX_BLOCKS)))


def _texts(value: Any, depth: int) -> Iterator[str]:
    """One for each value that is visited, so that whoever takes some of them visits no others."""
    yield value if isinstance(value, str) else ""
    if isinstance(value, list) and depth:
        for item in value:
            yield from _texts(item, depth - 1)
    elif isinstance(value, dict) and depth:
        yield from _texts(value.get("text"), depth - 1)


def truncate(value: Any) -> str:
    """A string, or anything else as JSON, truncated for reading."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = text.strip()
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]} … ({len(text) - MAX_CHARACTERS} more characters)"


def _indent(text: str) -> str:
    lines = text.splitlines()
    return "  " + "\n  ".join(lines) if lines else ""


def objects_in(value: Any) -> Iterator[Event]:
    """The first objects of a list; empty for anything else."""
    if isinstance(value, list):
        yield from (item for item in value[:MAX_BLOCKS] if isinstance(item, dict))


def object_at(event: Event, name: str) -> Event:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


class ValueCounter:
    """Counts the values of a JSON text, which arrives in pieces, before it is parsed.

    A key and its value count as one, and so does an empty list.

    Only operations on whole pieces: a million values must not take longer than parsing them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._is_inside_string = False
        self._escape = b""

    def feed(self, data: bytes) -> None:
        data = (self._escape + data).replace(rb"\\", b"")
        # It belongs to the first character of the next piece.
        self._escape = data[-1:] if data.endswith(b"\\") else b""
        parts = data.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[self._is_inside_string :: 2])
        self.count += len(outside) - len(outside.translate(None, _SEPARATORS))
        self._is_inside_string ^= len(parts) % 2 == 0

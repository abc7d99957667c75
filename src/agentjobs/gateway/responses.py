"""Reads the usage out of an answer while it passes, whole or streamed, and changes no byte of it.

The one exception: the usage that the gateway asked for itself is kept from the client.
"""

import re
from typing import Any, Protocol

import msgspec

from agentjobs.gateway.endpoints import CHAT, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.usage import Usage

MAX_READ = 32 * 1024 * 1024
"""What is longer passes unread, and its usage with it."""


# Lines worth decoding. Quotes inside of what a model says are escaped, so none of these is there.
_TELLING = {
    CHAT.path: re.compile(rb'"usage"|"finish_reason"\s*:\s*"|\[DONE\]'),
    RESPONSES.path: re.compile(rb'"response\.(?:completed|incomplete|failed)"'),
    MESSAGES.path: re.compile(rb'"usage"|"stop_reason"|"message_stop"'),
}
_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")


class Reader(Protocol):
    @property
    def usage(self) -> Usage | None:
        """None until it is final."""

    def feed(self, data: bytes) -> bytes:
        """What of it goes on to the client now."""

    def end(self) -> bytes:
        """What is still to go when the answer is complete."""


def reader_for(endpoint: Endpoint, content_type: str, *, usage_is_ours: bool) -> Reader:
    if content_type.partition(";")[0].strip().lower() == "text/event-stream":
        return EventReader(endpoint, withhold=usage_is_ours)
    return WholeReader(endpoint)


class WholeReader:
    """A single JSON document."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.usage: Usage | None = None
        self._endpoint = endpoint
        self._content: bytearray | None = bytearray()

    def feed(self, data: bytes) -> bytes:
        if self._content is not None:
            self._content += data
            if len(self._content) > MAX_READ:
                self._content = None
        return data

    def end(self) -> bytes:
        said = _decode(self._content or b"")
        if said is not None:
            self.usage = self._endpoint.usage(said.get("usage"))
        return b""


class EventReader:
    """Server-sent events. Where something may have to be withheld, whole lines go on."""

    def __init__(self, endpoint: Endpoint, *, withhold: bool = False) -> None:
        self._endpoint = endpoint
        self._withhold = withhold
        self._rest = bytearray()
        self._blind = False
        self._swallow_blank = False
        self._begun: dict[str, Any] = {}
        self._telling = _TELLING[endpoint.path]
        self._said: Usage | None = None
        self._finished = False
        self._ended = False

    @property
    def usage(self) -> Usage | None:
        """Not before the model has ended: until then it may still use more."""
        return self._said if self._ended else None

    def feed(self, data: bytes) -> bytes:
        if self._blind:
            return data
        kept = b"".join(line for line in self._lines(data) if self._passes(line))
        if len(self._rest) > MAX_READ:
            kept += self._give_up()
        return kept if self._withhold else data

    def end(self) -> bytes:
        rest = self._give_up()
        passes = self._passes(rest)
        self._ended |= self._finished
        return rest if self._withhold and passes else b""

    def _lines(self, data: bytes) -> list[bytes]:
        end = data.rfind(b"\n") + 1
        if not end:
            self._rest += data
            return []
        whole = bytes(self._rest) + data[:end]
        self._rest[:] = data[end:]
        return whole.splitlines(keepends=True)

    def _give_up(self) -> bytes:
        self._blind = True
        rest = bytes(self._rest)
        self._rest.clear()
        return rest

    def _passes(self, line: bytes) -> bool:
        if self._swallow_blank and not line.strip():
            self._swallow_blank = False
            return False
        self._swallow_blank = False
        if line.startswith(b"data:") and self._telling.search(line):
            said = self._event(line[5:])
            if said is not None and self._read(said) and self._withhold:
                self._swallow_blank = True
                return False
        return True

    def _event(self, text: bytes) -> dict[str, Any] | None:
        if self._endpoint is CHAT and text.strip() == b"[DONE]":
            self._ended = True
        return _decode(text)

    def _read(self, said: dict[str, Any]) -> bool:
        """True if this event says nothing but the usage."""
        if self._endpoint is CHAT:
            return self._read_chunk(said)
        if self._endpoint is RESPONSES and said.get("type") in _RESPONSE_ENDS:
            self._said = self._endpoint.usage(_part(said, "response").get("usage"))
            self._ended = True
        if self._endpoint is MESSAGES:
            self._read_message(said)
        return False

    def _read_chunk(self, said: dict[str, Any]) -> bool:
        choices, usage = said.get("choices"), said.get("usage")
        for choice in choices if isinstance(choices, list) else []:
            self._finished |= isinstance(choice, dict) and bool(choice.get("finish_reason"))
        if usage is None:
            return False
        self._said = self._endpoint.usage(usage)
        return not choices

    def _read_message(self, said: dict[str, Any]) -> None:
        """The beginning tells the input, the end the output: each number the latest that is."""
        delta = _part(said, "delta")
        self._ended |= said.get("type") == "message_stop" or bool(delta.get("stop_reason"))
        if said.get("type") == "message_start":
            self._begun = _part(_part(said, "message"), "usage")
        elif said.get("type") == "message_delta":
            latest = _part(said, "usage")
            self._begun |= {name: value for name, value in latest.items() if value is not None}
            self._said = self._endpoint.usage(self._begun) if latest else None


def _part(said: dict[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}


def _decode(text: bytes | bytearray) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return said if isinstance(said, dict) else None

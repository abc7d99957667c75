"""Reads the usage from a response, whole or streamed, without changing it.

The only exception: usage that the gateway itself requested is hidden from the client.
"""

import re
from typing import Any

import msgspec

from agentjobs.gateway.endpoints import CHAT, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.usage import Usage

MAX_READ = 32 * 1024 * 1024
"""Longer responses are forwarded without reading their usage."""


# Lines worth decoding. Quotes in the model's output are escaped, so it cannot match these.
_RELEVANT_LINES = {
    CHAT.path: re.compile(rb'"usage"|"finish_reason"\s*:\s*"|\[DONE\]'),
    RESPONSES.path: re.compile(rb'"response\.(?:completed|incomplete|failed)"'),
    MESSAGES.path: re.compile(rb'"usage"|"stop_reason"|"message_stop"'),
}
_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")


def usage_reader(
    endpoint: Endpoint, content_type: str, *, hide_usage: bool
) -> "JsonReader | EventStreamReader":
    if content_type.partition(";")[0].strip().lower() == "text/event-stream":
        return EventStreamReader(endpoint, hide_usage=hide_usage)
    return JsonReader(endpoint)


class JsonReader:
    """A single JSON document. `usage` is None until it is final; `partial_usage` may still grow."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.usage: Usage | None = None
        self.partial_usage: Usage | None = None
        self._endpoint = endpoint
        self._content: bytearray | None = bytearray()

    def feed(self, data: bytes) -> bytes:
        if self._content is not None:
            self._content += data
            if len(self._content) > MAX_READ:
                self._content = None
        return data

    def end(self) -> bytes:
        event = _decode(self._content or b"")
        if event is not None:
            self.usage = self._endpoint.usage(event.get("usage"))
        return b""


class EventStreamReader:
    """Server-sent events. With `hide_usage`, only whole lines are forwarded."""

    def __init__(self, endpoint: Endpoint, *, hide_usage: bool = False) -> None:
        self._endpoint = endpoint
        self._hide_usage = hide_usage
        self._buffer = bytearray()
        self._is_passthrough = False
        self._skip_blank_line = False
        self._message_usage: dict[str, Any] = {}
        self._relevant_line = _RELEVANT_LINES[endpoint.path]
        self._usage: Usage | None = None
        self.partial_usage: Usage | None = None
        self._finished = False
        self._ended = False

    @property
    def usage(self) -> Usage | None:
        """None before the model has finished, because the usage may still grow."""
        return self._usage if self._ended else None

    def feed(self, data: bytes) -> bytes:
        if self._is_passthrough:
            return data
        passed = b"".join(line for line in self._lines(data) if self._passes(line))
        if len(self._buffer) > MAX_READ:
            passed += self._give_up()
        return passed if self._hide_usage else data

    def end(self) -> bytes:
        rest = self._give_up()
        passes = self._passes(rest)
        self._ended |= self._finished
        return rest if self._hide_usage and passes else b""

    def _lines(self, data: bytes) -> list[bytes]:
        end = data.rfind(b"\n") + 1
        if not end:
            self._buffer += data
            return []
        whole = bytes(self._buffer) + data[:end]
        self._buffer[:] = data[end:]
        return whole.splitlines(keepends=True)

    def _give_up(self) -> bytes:
        self._is_passthrough = True
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _passes(self, line: bytes) -> bool:
        if self._skip_blank_line and not line.strip():
            self._skip_blank_line = False
            return False
        self._skip_blank_line = False
        if line.startswith(b"data:") and self._relevant_line.search(line):
            event = self._event(line[5:])
            if event is not None and self._read(event) and self._hide_usage:
                self._skip_blank_line = True
                return False
        return True

    def _event(self, text: bytes) -> dict[str, Any] | None:
        if self._endpoint is CHAT and text.strip() == b"[DONE]":
            self._ended = True
        return _decode(text)

    def _read(self, event: dict[str, Any]) -> bool:
        """True if this event contains only the usage."""
        if self._endpoint is CHAT:
            return self._read_chunk(event)
        if self._endpoint is RESPONSES and event.get("type") in _RESPONSE_ENDS:
            self._set_usage(_object(event, "response").get("usage"))
            self._ended = True
        if self._endpoint is MESSAGES:
            self._read_message(event)
        return False

    def _read_chunk(self, event: dict[str, Any]) -> bool:
        choices, usage = event.get("choices"), event.get("usage")
        for choice in choices if isinstance(choices, list) else []:
            self._finished |= isinstance(choice, dict) and bool(choice.get("finish_reason"))
        if usage is None:
            return False
        self._set_usage(usage)
        return not choices

    def _set_usage(self, reported: Any) -> None:
        self._usage = self._endpoint.usage(reported)
        self.partial_usage = self._usage or self.partial_usage

    def _read_message(self, event: dict[str, Any]) -> None:
        """The first event reports the input, later ones the output; the latest numbers count."""
        delta = _object(event, "delta")
        self._ended |= event.get("type") == "message_stop" or bool(delta.get("stop_reason"))
        if event.get("type") == "message_start":
            self._message_usage = _object(_object(event, "message"), "usage")
            self._set_usage(self._message_usage)
            self._usage = None
        elif event.get("type") == "message_delta":
            latest = _object(event, "usage")
            self._message_usage |= {
                name: value for name, value in latest.items() if value is not None
            }
            self._set_usage(self._message_usage if latest else None)


def _object(event: dict[str, Any], name: str) -> dict[str, Any]:
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def _decode(text: bytes | bytearray) -> dict[str, Any] | None:
    try:
        event = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return event if isinstance(event, dict) else None

"""The usage is read out of an answer that passes, however it is cut into pieces."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.gateway import responses
from agentjobs.gateway.endpoints import CHAT, ENDPOINTS, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.responses import EventStreamReader, JsonReader, usage_reader
from agentjobs.gateway.usage import Usage
from tests.support.model_messages import Event, ModelReply, Tokens, encode_reply, stream_reply

REPLY = ModelReply(text='He said "usage" and {"usage": 1}. ä 😀', usage=Tokens(100, 20, 30, 10))
USAGE = Usage(uncached=60, cached=30, cache_write=10, output=20)
ASKED = {"model": "m", "stream_options": {"include_usage": True}}


def encoded(events: list[Event], newline: bytes = b"\n") -> bytes:
    text = b""
    for name, data in events:
        text += b"event: " + name.encode() + newline if name else b""
        body = data.encode() if isinstance(data, str) else msgspec.json.encode(data)
        text += b"data: " + body + newline * 2
    return text


def stream_of(endpoint: Endpoint, newline: bytes = b"\n") -> bytes:
    return encoded(list(stream_reply(endpoint.path, REPLY, ASKED)), newline)


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def passed(reader: EventStreamReader, pieces: list[bytes]) -> bytes:
    return b"".join(reader.feed(piece) for piece in pieces) + reader.end()


@given(
    st.sampled_from([CHAT, RESPONSES, MESSAGES]),
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_a_stream_passes_unchanged_and_its_usage_is_read(
    endpoint: Endpoint, newline: bytes, places: list[int]
) -> None:
    text = stream_of(endpoint, newline)
    reader = EventStreamReader(endpoint)

    assert passed(reader, cut(text, places)) == text
    assert reader.usage == USAGE


@given(
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_only_usage_requested_by_the_gateway_is_hidden(newline: bytes, places: list[int]) -> None:
    events = list(stream_reply(CHAT.path, REPLY, ASKED))
    text = encoded(events, newline)
    without_usage = encoded([*events[:-2], events[-1]], newline)
    reader = EventStreamReader(CHAT, hide_usage=True)

    assert passed(reader, cut(text, places)) == without_usage
    assert reader.usage == USAGE


def test_events_are_forwarded_as_soon_as_they_are_complete() -> None:
    reader = EventStreamReader(CHAT, hide_usage=True)
    event = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'

    assert reader.feed(event) == event


def test_a_usage_in_an_event_with_content_is_not_hidden() -> None:
    body = {"prompt_tokens": 1, "completion_tokens": 2}
    event = encoded([("", {"choices": [{"delta": {"content": "a"}}], "usage": body})])
    reader = EventStreamReader(CHAT, hide_usage=True)

    assert reader.feed(event) == event
    reader.feed(b"data: [DONE]\n\n")
    assert reader.usage == Usage(uncached=1, output=2)


@pytest.mark.parametrize("endpoint", ENDPOINTS.values())
def test_a_stream_that_was_cut_has_no_usage(endpoint: Endpoint) -> None:
    events = list(stream_reply(endpoint.path, REPLY, ASKED))[:-2]
    if endpoint is RESPONSES:
        events = events[:-1]
    reader = EventStreamReader(endpoint)

    passed(reader, [encoded(events)])

    assert reader.usage is None


CHUNK = {"prompt_tokens": 5, "completion_tokens": 1}
BEGUN = {"input_tokens": 3, "output_tokens": 1}
UNENDED: list[tuple[Endpoint, dict[str, Any]]] = [
    (CHAT, {"choices": [{"delta": {"content": "a"}, "finish_reason": None}], "usage": CHUNK}),
    (RESPONSES, {"type": "response.created", "response": {"usage": BEGUN}}),
    (RESPONSES, {"type": "response.in_progress", "response": {"usage": BEGUN}}),
    (MESSAGES, {"type": "message_start", "message": {"usage": BEGUN}}),
    (MESSAGES, {"type": "message_delta", "delta": {"stop_reason": None}, "usage": BEGUN}),
]


@pytest.mark.parametrize(("endpoint", "event"), UNENDED)
def test_a_usage_in_the_middle_of_a_stream_is_not_final(
    endpoint: Endpoint, event: dict[str, Any]
) -> None:
    reader = EventStreamReader(endpoint)

    passed(reader, [encoded([("", event)])])

    assert reader.usage is None


ENDED: list[tuple[Endpoint, list[dict[str, Any]]]] = [
    (CHAT, [{"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": CHUNK}]),
    (CHAT, [{"choices": [{"finish_reason": "length"}]}, {"choices": [], "usage": CHUNK}]),
    *(
        (RESPONSES, [{"type": f"response.{end}", "response": {"usage": BEGUN}}])
        for end in ("completed", "incomplete", "failed")
    ),
    (MESSAGES, [{"type": "message_delta", "usage": BEGUN}, {"type": "message_stop"}]),
    (MESSAGES, [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": BEGUN}]),
]


@pytest.mark.parametrize(("endpoint", "events"), ENDED)
def test_a_usage_is_final_once_the_model_has_finished(
    endpoint: Endpoint, events: list[dict[str, Any]]
) -> None:
    reader = EventStreamReader(endpoint)

    passed(reader, [encoded([("", event) for event in events])])

    assert reader.usage is not None


def test_a_chat_stream_without_done_ends_only_with_its_connection() -> None:
    reader = EventStreamReader(CHAT)
    reader.feed(encoded([("", {"choices": [{"finish_reason": "stop"}], "usage": CHUNK})]))

    assert reader.usage is None
    reader.end()
    assert reader.usage is not None


@pytest.mark.parametrize("endpoint", ENDPOINTS.values())
def test_a_whole_response_has_its_usage_at_the_end(endpoint: Endpoint) -> None:
    text = msgspec.json.encode(encode_reply(endpoint.path, REPLY, ASKED))
    reader = usage_reader(endpoint, "application/json; charset=utf-8", hide_usage=False)

    assert reader.feed(text[:50]) + reader.feed(text[50:]) + reader.end() == text
    assert reader.usage == USAGE


@pytest.mark.parametrize("text", [b"", b"null", b"not json", b'{"usage": 7}', b"[" * 100_000])
def test_a_malformed_response_is_forwarded_without_usage(text: bytes) -> None:
    for reader in (JsonReader(CHAT), EventStreamReader(CHAT)):
        assert reader.feed(b"data: " + text) == b"data: " + text
        reader.end()
        assert reader.usage is None


def test_a_line_without_end_is_forwarded_without_buffering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "MAX_READ", 100)
    reader = EventStreamReader(CHAT, hide_usage=True)
    piece = b"data: " + b"x" * 60

    assert passed(reader, [piece] * 4) == piece * 4
    assert reader.usage is None

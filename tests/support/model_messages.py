"""Encodes an answer for the three model APIs, whole or streamed.

Knows the shapes of OpenAI chat completions, OpenAI responses and Anthropic messages; knows nothing
of sockets. An `Answer` says the same in all of them.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

Body = dict[str, Any]
Event = tuple[str, Body | str]
"""A name (empty where the protocol has none) and the value of `data:`."""

_CREATED = 1_760_000_000


class ToolCall(msgspec.Struct, frozen=True):
    """A call of the client's tool: `arguments` for a function, `input` for a custom tool."""

    name: str
    arguments: dict[str, Any] = {}
    input: str | None = None


class Tokens(msgspec.Struct, frozen=True):
    """`input` is everything that was read, `cached` and `cache_write` are parts of it."""

    input: int
    output: int
    cached: int = 0
    cache_write: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says and how it misbehaves.

    `when` is a text the request must contain for this answer to be meant. `always` answers are
    never used up. `cut_after` ends the connection after so many events, `hang_after` falls silent
    there until the client leaves. `no_usage` leaves the usage out.
    """

    text: str = ""
    tool_calls: list[ToolCall] = []
    usage: Tokens | None = None
    no_usage: bool = False
    when: str = ""
    unless: str = ""
    always: bool = False
    status: int = 200
    error: str = "the script says so"
    headers: dict[str, str] = {}
    cut_after: int | None = None
    hang_after: int | None = None


def tokens_of(answer: Answer, asked: Body) -> Tokens:
    """The scripted usage, or about four bytes a token, within what the request allows."""
    limit = next((asked[key] for key in _MAXIMA if asked.get(key)), None)
    output = answer.text + "".join(json.dumps(call.arguments) for call in answer.tool_calls)
    tokens = answer.usage or Tokens(
        len(json.dumps(asked, ensure_ascii=False).encode()) // 4 + 1, len(output) // 4 + 1
    )
    output = tokens.output if limit is None else min(tokens.output, limit)
    return Tokens(tokens.input, output * (asked.get("n") or 1), tokens.cached, tokens.cache_write)


_MAXIMA = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def whole(path: str, answer: Answer, asked: Body) -> Body:
    return _WHOLE[path](answer, asked)


def streamed(path: str, answer: Answer, asked: Body) -> Iterator[Event]:
    return _STREAMED[path](answer, asked)


def failure(path: str, status: int, message: str) -> Body:
    if path == "/v1/messages":
        kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {
            "type": "error",
            "error": {"type": kinds.get(status, "api_error"), "message": message},
            "request_id": "req_1",
        }
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def _turn(asked: Body) -> int:
    """How long the conversation is: tool calls of different turns need different names."""
    messages = asked.get("messages") or asked.get("input") or ""
    return len(messages) if isinstance(messages, list) else 1


def _pieces(text: str, size: int = 12) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


# OpenAI chat completions


def _chat_usage(tokens: Tokens) -> Body:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _chat_calls(answer: Answer, turn: int) -> list[Body]:
    return [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(answer.tool_calls)
    ]


def _chat(answer: Answer, asked: Body) -> Body:
    message: Body = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = _chat_calls(answer, _turn(asked))
    reason = "tool_calls" if answer.tool_calls else "stop"
    body: Body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": asked["model"],
        "choices": [
            {"index": index, "message": message, "logprobs": None, "finish_reason": reason}
            for index in range(asked.get("n") or 1)
        ],
        "service_tier": "default",
    }
    if not answer.no_usage:
        body["usage"] = _chat_usage(tokens_of(answer, asked))
    return body


def _chat_deltas(answer: Answer, turn: int) -> Iterator[tuple[Body, str | None]]:
    yield {"role": "assistant", "content": "", "refusal": None}, None
    for piece in _pieces(answer.text):
        yield {"content": piece}, None
    for index, call in enumerate(_chat_calls(answer, turn)):
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}, None
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, "tool_calls" if answer.tool_calls else "stop"


def _chat_stream(answer: Answer, asked: Body) -> Iterator[Event]:
    with_usage = bool((asked.get("stream_options") or {}).get("include_usage"))
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": asked["model"],
        **({"usage": None} if with_usage else {}),
    }
    for delta, reason in _chat_deltas(answer, _turn(asked)):
        for index in range(asked.get("n") or 1):
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
            yield "", {**chunk, "choices": [choice]}
    if with_usage and not answer.no_usage:
        yield "", {**chunk, "choices": [], "usage": _chat_usage(tokens_of(answer, asked))}
    yield "", "[DONE]"


# OpenAI responses


def _responses_items(answer: Answer, turn: int) -> list[Body]:
    items: list[Body] = []
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{turn}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for number, call in enumerate(answer.tool_calls):
        shared: Body = {
            "call_id": f"call_{turn}_{number}",
            "name": call.name,
            "status": "completed",
        }
        if call.input is None:
            arguments = json.dumps(call.arguments)
            items.append(
                {
                    "id": f"fc_{turn}_{number}",
                    "type": "function_call",
                    "arguments": arguments,
                    **shared,
                }
            )
        else:
            items.append(
                {
                    "id": f"ctc_{turn}_{number}",
                    "type": "custom_tool_call",
                    "input": call.input,
                    **shared,
                }
            )
    return items


def _response(answer: Answer, asked: Body, *, done: bool) -> Body:
    tokens = tokens_of(answer, asked)
    usage = {
        "input_tokens": tokens.input,
        "input_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input + tokens.output,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed" if done else "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": asked["model"],
        "output": _responses_items(answer, _turn(asked)) if done else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": asked.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if done and not answer.no_usage else None,
        "metadata": {},
    }


def _responses(answer: Answer, asked: Body) -> Body:
    return _response(answer, asked, done=True)


_CONTENT_OF = {"function_call": "arguments", "custom_tool_call": "input"}
_EVENT_OF = {
    "function_call": "function_call_arguments",
    "custom_tool_call": "custom_tool_call_input",
}


def _call_events(item: Body, place: Body) -> Iterator[Event]:
    field, name = _CONTENT_OF[item["type"]], _EVENT_OF[item["type"]]
    for piece in _pieces(item[field]):
        yield f"response.{name}.delta", {**place, "delta": piece}
    yield f"response.{name}.done", {**place, field: item[field]}


def _text_events(item: Body, place: Body) -> Iterator[Event]:
    part = item["content"][0]
    place = {**place, "content_index": 0}
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}


def _item_events(index: int, item: Body) -> Iterator[Event]:
    is_text = item["type"] == "message"
    empty = {"content": []} if is_text else {_CONTENT_OF[item["type"]]: ""}
    begun = {**item, **empty, "status": "in_progress"}
    yield "response.output_item.added", {"output_index": index, "item": begun}
    place = {"item_id": item["id"], "output_index": index}
    yield from (_text_events if is_text else _call_events)(item, place)
    yield "response.output_item.done", {"output_index": index, "item": item}


def _responses_events(answer: Answer, asked: Body) -> Iterator[Event]:
    begun = _response(answer, asked, done=False)
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_responses_items(answer, _turn(asked))):
        yield from _item_events(index, item)
    yield "response.completed", {"response": _response(answer, asked, done=True)}


def _responses_stream(answer: Answer, asked: Body) -> Iterator[Event]:
    for number, (name, data) in enumerate(_responses_events(answer, asked)):
        assert isinstance(data, dict)
        yield name, {"type": name, "sequence_number": number, **data}


# Anthropic messages


def _blocks(answer: Answer, turn: int) -> list[Body]:
    blocks: list[Body] = [{"type": "text", "text": answer.text}] if answer.text else []
    for number, call in enumerate(answer.tool_calls):
        block = {"type": "tool_use", "id": f"toolu_{turn}_{number}", "name": call.name}
        blocks.append({**block, "input": call.arguments})
    return blocks


def _message_usage(tokens: Tokens) -> Body:
    return {
        "input_tokens": tokens.input - tokens.cached - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": tokens.output,
        "service_tier": "standard",
    }


def _message(answer: Answer, asked: Body) -> Body:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": _blocks(answer, _turn(asked)),
        "stop_reason": "tool_use" if answer.tool_calls else "end_turn",
        "stop_sequence": None,
    }
    return body if answer.no_usage else {**body, "usage": _message_usage(tokens_of(answer, asked))}


def _block_events(index: int, block: Body) -> Iterator[Event]:
    is_text = block["type"] == "text"
    empty = {**block, "text": ""} if is_text else {**block, "input": {}}
    yield "content_block_start", {"index": index, "content_block": empty}
    yield "ping", {}
    text = block["text"] if is_text else json.dumps(block["input"])
    kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
    for piece in _pieces(text):
        yield "content_block_delta", {"index": index, "delta": {"type": kind, field: piece}}
    yield "content_block_stop", {"index": index}


def _message_events(answer: Answer, asked: Body) -> Iterator[Event]:
    tokens = tokens_of(answer, asked)
    begun = {**_message(answer, asked), "content": [], "stop_reason": None}
    begun["usage"] = {**_message_usage(tokens), "output_tokens": 1}
    yield "message_start", {"message": begun}
    for index, block in enumerate(_blocks(answer, _turn(asked))):
        yield from _block_events(index, block)
    reason = "tool_use" if answer.tool_calls else "end_turn"
    ended: Body = {"delta": {"stop_reason": reason, "stop_sequence": None}}
    if not answer.no_usage:
        ended["usage"] = {"output_tokens": tokens.output}
    yield "message_delta", ended
    yield "message_stop", {}


def _message_stream(answer: Answer, asked: Body) -> Iterator[Event]:
    for name, data in _message_events(answer, asked):
        assert isinstance(data, dict)
        yield name, {"type": name, **data}


_WHOLE = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _message,
}
_STREAMED = {
    "/v1/chat/completions": _chat_stream,
    "/v1/responses": _responses_stream,
    "/v1/messages": _message_stream,
}
PATHS = tuple(_WHOLE)

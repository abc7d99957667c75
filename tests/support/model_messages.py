"""Encodes a scripted reply for the three model APIs, as one body or as a stream.

Knows the shapes of OpenAI chat completions, OpenAI responses and Anthropic messages, and nothing of
sockets. A `ModelReply` has the same meaning in all of them.
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
    """`input` includes `cached` and `cache_write`."""

    input: int
    output: int
    cached: int = 0
    cache_write: int = 0


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The model's text and tool calls, and its faults.

    Only requests that contain `when` and do not contain `unless` get this reply. An `always` reply
    is never used up. `cut_after` closes the connection after that many events; `hang_after` sends
    nothing more until the client disconnects. `no_usage` omits the usage. Without a scripted usage,
    a token has `bytes_per_token` bytes of the request and of the reply.
    """

    text: str = ""
    tool_calls: list[ToolCall] = []
    usage: Tokens | None = None
    no_usage: bool = False
    bytes_per_token: int = 4
    when: str = ""
    unless: str = ""
    always: bool = False
    status: int = 200
    error: str = "the script says so"
    headers: dict[str, str] = {}
    cut_after: int | None = None
    hang_after: int | None = None


def tokens_of(reply: ModelReply, request: Body) -> Tokens:
    """The scripted usage, or one by the number of bytes, within what the request allows."""
    limit = next((request[key] for key in _MAXIMA if request.get(key)), None)
    output = reply.text + "".join(json.dumps(call.arguments) for call in reply.tool_calls)
    tokens = reply.usage or Tokens(
        -(-len(msgspec.json.encode(request)) // reply.bytes_per_token),
        len(output) // reply.bytes_per_token + 1,
    )
    output = tokens.output if limit is None else min(tokens.output, limit)
    return Tokens(tokens.input, output * (request.get("n") or 1), tokens.cached, tokens.cache_write)


_MAXIMA = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def encode_reply(path: str, reply: ModelReply, request: Body) -> Body:
    return _ENCODERS[path](reply, request)


def stream_reply(path: str, reply: ModelReply, request: Body) -> Iterator[Event]:
    return _STREAM_ENCODERS[path](reply, request)


def failure(path: str, status: int, message: str) -> Body:
    if path == "/v1/messages":
        kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {
            "type": "error",
            "error": {"type": kinds.get(status, "api_error"), "message": message},
            "request_id": "req_1",
        }
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def _turn_number(request: Body) -> int:
    """The length of the conversation: tool calls of different turns need different IDs."""
    messages = request.get("messages") or request.get("input") or ""
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


def _chat_calls(reply: ModelReply, turn: int) -> list[Body]:
    return [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(reply.tool_calls)
    ]


def _chat(reply: ModelReply, request: Body) -> Body:
    message: Body = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tool_calls:
        message["tool_calls"] = _chat_calls(reply, _turn_number(request))
    reason = "tool_calls" if reply.tool_calls else "stop"
    body: Body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": request["model"],
        "choices": [
            {"index": index, "message": message, "logprobs": None, "finish_reason": reason}
            for index in range(request.get("n") or 1)
        ],
        "service_tier": "default",
    }
    if not reply.no_usage:
        body["usage"] = _chat_usage(tokens_of(reply, request))
    return body


def _chat_deltas(reply: ModelReply, turn: int) -> Iterator[tuple[Body, str | None]]:
    yield {"role": "assistant", "content": "", "refusal": None}, None
    for piece in _pieces(reply.text):
        yield {"content": piece}, None
    for index, call in enumerate(_chat_calls(reply, turn)):
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}, None
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, "tool_calls" if reply.tool_calls else "stop"


def _chat_stream(reply: ModelReply, request: Body) -> Iterator[Event]:
    with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": request["model"],
        **({"usage": None} if with_usage else {}),
    }
    for delta, reason in _chat_deltas(reply, _turn_number(request)):
        for index in range(request.get("n") or 1):
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
            yield "", {**chunk, "choices": [choice]}
    if with_usage and not reply.no_usage:
        yield "", {**chunk, "choices": [], "usage": _chat_usage(tokens_of(reply, request))}
    yield "", "[DONE]"


# OpenAI responses


def _responses_items(reply: ModelReply, turn: int) -> list[Body]:
    items: list[Body] = []
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{turn}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for number, call in enumerate(reply.tool_calls):
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


def _response(reply: ModelReply, request: Body, *, done: bool) -> Body:
    tokens = tokens_of(reply, request)
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
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "model": request["model"],
        "output": _responses_items(reply, _turn_number(request)) if done else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if done and not reply.no_usage else None,
        "metadata": {},
    }


def _responses(reply: ModelReply, request: Body) -> Body:
    return _response(reply, request, done=True)


_CONTENT_OF = {"function_call": "arguments", "custom_tool_call": "input"}
_EVENT_OF = {
    "function_call": "function_call_arguments",
    "custom_tool_call": "custom_tool_call_input",
}


def _call_events(item: Body, position: Body) -> Iterator[Event]:
    field, name = _CONTENT_OF[item["type"]], _EVENT_OF[item["type"]]
    for piece in _pieces(item[field]):
        yield f"response.{name}.delta", {**position, "delta": piece}
    yield f"response.{name}.done", {**position, field: item[field]}


def _text_events(item: Body, position: Body) -> Iterator[Event]:
    part = item["content"][0]
    position = {**position, "content_index": 0}
    yield "response.content_part.added", {**position, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield "response.output_text.delta", {**position, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**position, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**position, "part": part}


def _item_events(index: int, item: Body) -> Iterator[Event]:
    is_text = item["type"] == "message"
    empty = {"content": []} if is_text else {_CONTENT_OF[item["type"]]: ""}
    in_progress = {**item, **empty, "status": "in_progress"}
    yield "response.output_item.added", {"output_index": index, "item": in_progress}
    position = {"item_id": item["id"], "output_index": index}
    yield from (_text_events if is_text else _call_events)(item, position)
    yield "response.output_item.done", {"output_index": index, "item": item}


def _responses_events(reply: ModelReply, request: Body) -> Iterator[Event]:
    in_progress = _response(reply, request, done=False)
    yield "response.created", {"response": in_progress}
    yield "response.in_progress", {"response": in_progress}
    for index, item in enumerate(_responses_items(reply, _turn_number(request))):
        yield from _item_events(index, item)
    yield "response.completed", {"response": _response(reply, request, done=True)}


def _responses_stream(reply: ModelReply, request: Body) -> Iterator[Event]:
    for number, (name, data) in enumerate(_responses_events(reply, request)):
        assert isinstance(data, dict)
        yield name, {"type": name, "sequence_number": number, **data}


# Anthropic messages


def _blocks(reply: ModelReply, turn: int) -> list[Body]:
    blocks: list[Body] = [{"type": "text", "text": reply.text}] if reply.text else []
    for number, call in enumerate(reply.tool_calls):
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


def _message(reply: ModelReply, request: Body) -> Body:
    body = {
        # Claude Code joins messages with the same id.
        "id": f"msg_{_turn_number(request)}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": _blocks(reply, _turn_number(request)),
        "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
        "stop_sequence": None,
    }
    return body if reply.no_usage else {**body, "usage": _message_usage(tokens_of(reply, request))}


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


def _message_events(reply: ModelReply, request: Body) -> Iterator[Event]:
    tokens = tokens_of(reply, request)
    in_progress = {**_message(reply, request), "content": [], "stop_reason": None}
    in_progress["usage"] = {**_message_usage(tokens), "output_tokens": 1}
    yield "message_start", {"message": in_progress}
    for index, block in enumerate(_blocks(reply, _turn_number(request))):
        yield from _block_events(index, block)
    reason = "tool_use" if reply.tool_calls else "end_turn"
    end: Body = {"delta": {"stop_reason": reason, "stop_sequence": None}}
    if not reply.no_usage:
        end["usage"] = {"output_tokens": tokens.output}
    yield "message_delta", end
    yield "message_stop", {}


def _message_stream(reply: ModelReply, request: Body) -> Iterator[Event]:
    for name, data in _message_events(reply, request):
        assert isinstance(data, dict)
        yield name, {"type": name, **data}


_ENCODERS = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _message,
}
_STREAM_ENCODERS = {
    "/v1/chat/completions": _chat_stream,
    "/v1/responses": _responses_stream,
    "/v1/messages": _message_stream,
}
PATHS = tuple(_ENCODERS)

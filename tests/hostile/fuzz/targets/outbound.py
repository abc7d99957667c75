"""Targets: model providers, webhook receivers, the egress proxy, and what our client reads."""

import hashlib
import hmac
import json
from contextlib import suppress
from typing import Any

import httpx

from agentjobs.gateway.calls import parse, prepare, read_model
from agentjobs.gateway.endpoints import CHAT, MESSAGES, RESPONSES, Endpoint
from agentjobs.gateway.measured_prompts import MeasuredPrompts
from agentjobs.gateway.responses import usage_reader
from agentjobs.repos.imports.source import parse_source
from agentjobs.webhooks.targets import _parse as _parse_webhook_url
from agentjobs.webhooks.untrusted_http.response import InvalidResponse, Response
from agentjobs_client import calls
from agentjobs_client.call import error_from
from agentjobs_client.errors import ClientError
from agentjobs_client.server_sent_events import EventParser
from agentjobs_client.webhooks import verify_webhook
from agentjobs_runtime.outbound.egress.http_head import HeadError, parse_request, parse_response
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.host_patterns import parse_pattern, split_port
from agentjobs_runtime.outbound.guard.hosts import host_refusal_reason
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.sandbox_http.key_filter import KeyFilter
from agentjobs_runtime.upstream import Upstream
from tests.hostile.fuzz.documents import documents, json_documents, texts
from tests.hostile.fuzz.feeding import split_bytes
from tests.hostile.fuzz.target import Target

# The gateway

_MESSAGE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ],
}
_CALL = {
    "model": "m",
    "messages": [_MESSAGE, {"role": "assistant", "content": "y"}],
    "input": [{"type": "input_file", "file_id": "x"}],
    "system": [{"type": "text", "text": "z", "cache_control": {"ttl": "1h"}}],
    "tools": [
        {"type": "function", "function": {"name": "f"}},
        {"type": "shell", "environment": {}},
    ],
    "max_tokens": 10,
    "n": 2,
    "stream": True,
    "stream_options": {"include_usage": False},
    "service_tier": "auto",
    "context_management": {"edits": [{"type": "clear_x"}]},
}


def _prepare(content: bytes) -> object:
    body = parse(content)
    model = read_model(body, Upstream(api="openai", url="https://x", key="k", models=("m*", "*")))
    bodies = []
    for endpoint in (CHAT, RESPONSES, MESSAGES):
        for has_limit in (False, True):
            call = prepare(
                *(endpoint, body, model, None, "max_tokens"),
                has_limit=has_limit,
                measured=MeasuredPrompts(),
            )
            bodies.append(call.body)
    return bodies[0]


_USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}}
_MESSAGES_USAGE = {
    "input_tokens": 3,
    "output_tokens": 4,
    "cache_creation": {"ephemeral_1h_input_tokens": 2},
    "iterations": [{"input_tokens": 1}],
}


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events)


_STREAMS = {
    CHAT: _events({"choices": [{"finish_reason": "stop"}]}, {"choices": [], "usage": _USAGE})
    + b"data: [DONE]\n\n",
    RESPONSES: _events({"type": "response.completed", "response": {"usage": _MESSAGES_USAGE}}),
    MESSAGES: _events(
        {"type": "message_start", "message": {"usage": _MESSAGES_USAGE}},
        {"type": "message_delta", "delta": {"stop_reason": "x"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ),
}


def _stream_reader(endpoint: Endpoint, content_type: str) -> Any:
    def read(content: bytes) -> object:
        shown = []
        for hide_usage in (False, True):
            reader = usage_reader(endpoint, content_type, hide_usage=hide_usage)
            key = KeyFilter("sk-secret-0123456789")
            pieces = [key.feed(reader.feed(piece)) for piece in split_bytes(content)]
            shown.append(b"".join([*pieces, key.feed(reader.end()), key.end()]))
            assert reader.usage is None or reader.usage.is_plausible
        return shown

    return read


# Webhook receivers and the egress proxy

_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok"
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_CHUNKED = _CHUNKED_HEAD + b"2;x=y\r\nok\r\n0\r\nX: y\r\n\r\n"
_UPGRADE = b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n\0"


def _receive(content: bytes) -> object:
    results = []
    for head_only in (False, True):
        response = Response(head_only=head_only)
        for piece in split_bytes(content):
            response.feed(piece)
        assert len(response.body) <= 16 * 1024
        results += [response.status, response.headers, bytes(response.body)]
        response.close()
    return results


def _parse_heads(content: bytes) -> object:
    try:
        head = parse_response(content)
    except HeadError:
        request = parse_request(content)
        assert 0 < request.port < 65_536
        return request.to_server()
    return head.to_client()


def _parse_hosts(text: str) -> object:
    allowed = AllowList.parse(["10.0.0.0/8"])
    host_refusal_reason(text[:300], allowed)
    with suppress(Problem):
        source = parse_source(f"https://{text}")
        assert 0 < source.port < 65_536
    with suppress(Problem):
        _parse_webhook_url(f"https://{text}")
    _, port = split_port(text)
    assert port is None or 0 < port < 65_536
    return parse_pattern(text)


# Our client


def _receive_webhook(content: bytes) -> object:
    signature = hmac.new(b"whsec_x", content, hashlib.sha256).hexdigest()
    text = content[:300].decode("latin-1")
    headers = {
        "X-Service-Signature-256": f"sha256={signature}",
        "webhook-id": text,
        "webhook-timestamp": text,
        "webhook-signature": text,
        "X-Service-Sequence": text,
    }
    with suppress(ClientError):
        verify_webhook(content, headers, "whsec_x", clock=lambda: 0.0)
    return verify_webhook(content, headers, "whsec_x", tolerance_seconds=None)


_JOB_PAGE = {
    "jobs": [
        {
            "job_id": "job_1",
            "status": "failed",
            "agent": "a",
            "created_at": "2026-01-31T09:30:00.000Z",
            "error": {"code": "timeout", "message": "m", "retryable": True},
            "labels": {"team": "web"},
        }
    ],
    "next_cursor": "c",
    "warnings": ["`status` was ignored"],
}
_ERROR = {"error": {"code": "not_found", "message": "m", "details": [{"field": "a"}]}}
_LIST_JOBS = calls.list_jobs({})(None)


def _read_response(content: bytes) -> object:
    request = httpx.Request("GET", "http://test/v1/jobs?status=a")
    try:
        return _LIST_JOBS.parse(httpx.Response(200, content=content, request=request)).items
    finally:
        str(error_from(httpx.Response(404, content=content, request=request)))


def _read_events(text: str) -> object:
    parser, whole = EventParser(), EventParser()
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert events == list(whole.feed(text))
    return events


TARGETS = (
    Target(
        "gateway request",
        json_documents(_CALL),
        _prepare,
        (RequestRefused,),
        frames=("{}", '{"model": "m", "messages": {}', '{"model": "m", "tools": [{}{}]}'),
        units=('{"type":"a"},', "[],", '{"content":['),
    ),
    *(
        Target(
            f"model stream {endpoint.path}",
            documents(
                stream, tokens=(b"data:", b"data: ", b"\n\n", b"[DONE]", b'"usage"', b"null")
            ),
            _stream_reader(endpoint, "text/event-stream"),
            frames=("{}", "data: {}", 'data: {"usage": {}'),
            units=("data:\n", 'data: {"usage":{}}\n\n', "\n\n", 'data: "usage"\n'),
        )
        for endpoint, stream in _STREAMS.items()
    ),
    *(
        Target(
            f"model response {endpoint.path}",
            json_documents({"usage": usage}),
            _stream_reader(endpoint, "application/json"),
        )
        for endpoint, usage in (
            (CHAT, _USAGE),
            (MESSAGES, _MESSAGES_USAGE),
            (RESPONSES, _MESSAGES_USAGE),
        )
    ),
    Target(
        "webhook response",
        documents(
            _RESPONSE,
            _CHUNKED,
            _UPGRADE,
            tokens=(b"\r\n", b"\r\n\r\n", b"Content-Length: ", b"chunked"),
        ),
        _receive,
        (InvalidResponse,),
        frames=(
            "{}",
            "HTTP/1.1 200 OK\r\n{}",
            "HTTP/1.1 {}",
            _CHUNKED_HEAD.decode() + "{}",
        ),
        units=("a: b\r\n", "1\r\na\r\n", "HTTP/1.1 100 C\r\n\r\n", "0\r\n"),
    ),
    Target(
        "proxy head",
        documents(
            b"GET http://a@x.test:8080/p?q HTTP/1.1\r\nHost: x\r\nConnection: close, te\r\n\r\n",
            b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n",
            b"HTTP/1.0 404 Not Found\r\nA:\tb \r\n\r\n",
            tokens=(b"http://", b"[", b"]", b"@", b":", b":000001", b"\r\n", b"%", b"Connection: "),
        ),
        _parse_heads,
        (HeadError,),
        frames=("{}", "GET http://{} HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n{}", "HTTP/1.1 200 {}"),
        units=("a: b\r\n", "connection: a\r\n"),
        max_bytes=64 * 1024,
    ),
    Target(
        "host names",
        texts(
            "*.example.org:8443",
            "[2001:db8::1]:443",
            "127.1",
            "0x7f.1:80",
            "a/b?c#d",
            tokens=(":000001", "]:", "xn--", "%eth0"),
        ),
        _parse_hosts,
        (ValueError, Problem),
        frames=("{}", "a:{}", "[{}]", "a.{}"),
        is_text=True,
        max_bytes=64 * 1024,
    ),
    Target(
        "webhook at our client",
        json_documents(
            {"event": "job.completed", "job_id": "job_1", "created_at": "x", "data": {"a": 1}}
        ),
        _receive_webhook,
        (ClientError,),
    ),
    Target(
        "response at our client",
        json_documents({**_JOB_PAGE, **_ERROR}),
        _read_response,
        (ClientError,),
        frames=("{}", '{"jobs": [{}]}', '{"error": {}}'),
        units=('{"job_id":"a"},', "[],", '{"error":'),
    ),
    Target(
        "events at our client",
        texts(
            "event: log\nid: 1\ndata: a\ndata: b\r\n\r\n:x\rretry: 1\n\n",
            tokens=("data:", "id:\0", "\r", "\n\n"),
        ),
        _read_events,
        frames=("{}", "data: {}"),
        units=("data:\n", "data\n\n", "\r\n"),
        is_text=True,
    ),
)

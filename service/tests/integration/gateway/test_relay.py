"""What the gateway makes of answers that are dearer, odder or more talkative than expected."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.gateway import REAL_KEY, GatewayHarness, chat, gateway_harness
from tests.support.model_messages import ModelReply, Tokens
from tests.support.stores import until

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


class Provider:
    """Answers every request with the same bytes, each piece only when it is let go."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.heads: list[bytes] = []
        self.url = ""
        self.go_on = asyncio.Semaphore(1)
        self.answering: set[asyncio.Task[None]] = set()
        self._pieces = pieces

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.answering.add(task)
        try:
            with suppress(ConnectionError):
                await self._give(reader, writer)
        finally:
            writer.close()

    async def _give(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.splitlines()
            if line.lower().startswith(b"content-length:")
        )
        await reader.readexactly(length)
        self.heads.append(head)
        for piece in self._pieces:
            await self.go_on.acquire()
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def provider(*pieces: bytes, at_once: bool = True) -> AsyncIterator[Provider]:
    provider_server = Provider(pieces)
    server = await asyncio.start_server(provider_server.answer, "127.0.0.1", 0)
    provider_server.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for _ in pieces if at_once else ():
        provider_server.go_on.release()
    try:
        yield provider_server
    finally:
        server.close()
        for _ in pieces:
            provider_server.go_on.release()
        await asyncio.gather(*provider_server.answering)


def answered(body: Any, *headers: str, status: str = "200 OK") -> bytes:
    content = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


async def text_of(
    harness: GatewayHarness, body: Any, path: str = "/v1/chat/completions"
) -> tuple[int, str]:
    headers = {"x-api-key": harness.gateway.token}
    async with harness.http.post(f"{harness.url}{path}", json=body, headers=headers) as answer:
        return answer.status, str(dict(answer.headers)) + await answer.text()


@pytest.mark.parametrize("limits", [{"job_usd": 1}, {"day_usd": 1}])
async def test_a_response_above_the_budget_ends_the_job(
    db: Database, limits: dict[str, Any]
) -> None:
    dear = ModelReply(text="ok", usage=Tokens(1_000_001, 1), always=True)
    async with gateway_harness(db, [dear], **limits) as harness:
        assert (await harness.ask())[0] == 200
        await until(lambda: bool(harness.exceeded))

        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (402, "budget_exceeded")
        assert body["error"]["message"] == harness.exceeded[0]
        assert len(harness.exceeded) == len(harness.provider.requests) == 1
        assert (await harness.settled()).cost_nanousd == 1_000_001_000 + 10_000


async def test_a_waiting_request_is_refused_once_the_budget_is_exceeded(db: Database) -> None:
    first = ModelReply(text="ok", usage=Tokens(2_000, 1), when="first", hang_after=1)
    dear = ModelReply(text="ok", usage=Tokens(2_000, 1), when="second")
    # Two fit (about 0.0011 each), three do not.
    async with gateway_harness(db, [first, dear], job_usd=0.0025) as harness:
        asking = [asyncio.create_task(harness.ask(body=chat("first", stream=True)))]
        await until(lambda: len(harness.provider.requests) == 1)
        assert (await harness.ask(body=chat("second")))[0] == 200
        await until(lambda: bool(harness.exceeded))

        assert (await harness.ask(body=chat("third")))[0] == 402
        asking[0].cancel()


@pytest.mark.parametrize("tokens", [10**9 + 1, 2**63, 10**30])
async def test_implausible_numbers_leave_the_reservation_and_are_noted(
    db: Database, tokens: int
) -> None:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    async with (
        provider(answered({"usage": usage})) as odd,
        gateway_harness(db, provider_url=odd.url) as harness,
    ):
        assert (await harness.ask())[0] == 200

        totals = await harness.settled()
        assert totals.cost_nanousd == harness.totals[0].cost_nanousd > 0
        assert "reserved" in harness.notes[0]


CUT: list[tuple[str, dict[str, Any], bytes]] = [
    (
        "/v1/chat/completions",
        chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}),
        b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n',
    ),
    (
        "/v1/responses",
        {"model": "priced", "input": "hi", "stream": True},
        b'data: {"type":"response.created","response":{"usage":{"input_tokens":0}}}\n\n',
    ),
    (
        "/v1/messages",
        chat(stream=True),
        b'data: {"type":"message_delta","usage":{"input_tokens":3,"output_tokens":2}}\n\n',
    ),
]


@pytest.mark.parametrize(("path", "body", "event"), CUT)
async def test_a_client_that_disconnects_after_an_early_usage_pays_the_reservation(
    db: Database, path: str, body: dict[str, Any], event: bytes
) -> None:
    api: Any = "anthropic" if path == "/v1/messages" else "openai"
    async with (
        provider(EVENTS + event, b"data: [DONE]\n\n", at_once=False) as slow,
        gateway_harness(db, api=api, job_usd=1, provider_url=slow.url) as harness,
    ):
        headers = {"x-api-key": harness.gateway.token}
        async with harness.http.post(f"{harness.url}{path}", json=body, headers=headers) as answer:
            assert b"usage" in await answer.content.readline()
            answer.close()

        await until(lambda: len(harness.totals) == 2)
        assert harness.totals[1].cost_nanousd == harness.totals[0].cost_nanousd > 100 * 10_000


async def test_an_error_in_chunks_arrives_complete_without_the_key(db: Database) -> None:
    refusal = answered({"error": {"message": f"no {REAL_KEY} here"}}, status="400 Bad")
    middle = refusal.index(REAL_KEY.encode()) + 9
    pieces = (refusal[:100], refusal[100:middle], refusal[middle:])
    async with (
        provider(*pieces, at_once=False) as slow,
        gateway_harness(db, provider_url=slow.url) as harness,
    ):
        asking = asyncio.create_task(harness.ask())
        await until(slow.go_on.locked)
        slow.go_on.release()
        slow.go_on.release()

        status, body = await asking

        assert status == 400
        assert body == {"error": {"message": "no [redacted] here"}}


async def test_an_endless_error_is_truncated_without_part_of_the_key(db: Database) -> None:
    content = b"x" * (256 * 1024 - 10) + REAL_KEY.encode() + b"y" * 100_000
    head = f"HTTP/1.1 400 Bad\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    async with (
        provider(head + content) as odd,
        gateway_harness(db, provider_url=odd.url) as harness,
    ):
        status, text = await text_of(harness, chat())

        assert status == 400
        assert text.endswith("x" * 1_000)


async def test_the_key_is_redacted_in_responses_and_headers(db: Database) -> None:
    echo = answered({"echo": f"Bearer {REAL_KEY}"}, f"x-request-id: {REAL_KEY}")
    async with provider(echo) as odd, gateway_harness(db, provider_url=odd.url) as harness:
        status, text = await text_of(harness, chat())

        assert status == 200
        assert REAL_KEY not in text
        assert text.count("[redacted]") == 2


async def test_the_key_is_redacted_in_streams(db: Database) -> None:
    start = REAL_KEY[:8].encode()
    pieces = (EVENTS + b'data: {"a":"' + start, REAL_KEY[8:].encode() + b'"}\n\ndata: [DONE]\n\n')
    async with provider(*pieces) as odd, gateway_harness(db, provider_url=odd.url) as harness:
        _, text = await text_of(harness, chat(stream=True))

        assert text.endswith('data: {"a":"[redacted]"}\n\ndata: [DONE]\n\n')


@pytest.mark.parametrize("query", ["beta=true", "a=%23b", "a=b%26c", "a=%20b", "a=%ff"])
async def test_the_query_is_forwarded_unchanged(db: Database, query: str) -> None:
    async with provider(answered({})) as odd, gateway_harness(db, provider_url=odd.url) as harness:
        assert (await _raw_ask(harness, query)).startswith(b"HTTP/1.1 200")

        assert odd.heads[0].startswith(f"POST /v1/chat/completions?{query} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("query", ["a=%00", "x=%20HTTP/1.1%0d%0aHost:%20a", "a=%7f"])
async def test_control_characters_in_the_query_are_refused(db: Database, query: str) -> None:
    async with gateway_harness(db, job_usd=1) as harness:
        assert (await _raw_ask(harness, query)).startswith(b"HTTP/1.1 400")

        assert harness.notes == harness.totals == harness.provider.requests == []


async def test_a_provider_that_changes_the_protocol_is_not_followed(db: Database) -> None:
    switch = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"
    async with provider(switch) as odd, gateway_harness(db, provider_url=odd.url) as harness:
        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (502, "provider_unreachable")


async def _raw_ask(harness: GatewayHarness, query: str) -> bytes:
    body = json.dumps(chat()).encode()
    head = (
        f"POST /v1/chat/completions?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"x-api-key: {harness.gateway.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = harness.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_cut_response_that_reported_more_than_was_reserved_is_charged_in_full(
    db: Database,
) -> None:
    start = (
        b'data: {"type":"message_start","message":'
        b'{"usage":{"input_tokens":50000,"output_tokens":1}}}\n\n'
    )
    async with (
        provider(EVENTS + start, b"data: {}\n\n", at_once=False) as slow,
        gateway_harness(db, api="anthropic", job_usd=1, provider_url=slow.url) as harness,
    ):
        headers = {"x-api-key": harness.gateway.token}
        url = f"{harness.url}/v1/messages"
        async with harness.http.post(url, json=chat(stream=True), headers=headers) as answer:
            assert b"usage" in await answer.content.readline()
            answer.close()

        await until(lambda: len(harness.totals) == 2)
        assert harness.totals[1].cost_nanousd == 50_000 * 1_000 + 100 * 10_000


async def test_beta_features_of_unknown_cost_are_not_requested_while_a_budget_applies(
    db: Database,
) -> None:
    reply = ModelReply(text="ok", always=True)
    async with gateway_harness(db, [reply], api="anthropic", job_usd=1) as harness:
        headers = {
            "x-api-key": harness.gateway.token,
            "anthropic-beta": "claude-code-20250219,fast-mode-2026-02-01",
        }
        assert (await harness.ask("/v1/messages", headers=headers))[0] == 200

        sent = harness.provider.requests[0].headers
        assert sent["anthropic-beta"] == "claude-code-20250219"
        assert "fast-mode-2026-02-01" in harness.notes[0]

"""The gateway under odd clients, odd providers and ends in the middle."""

import asyncio
import contextlib
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from agentjobs.app.outbound_setup import open_session
from agentjobs.gateway import gateway as gateways
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_runtime.sandbox_http import bodies, port_server
from agentjobs_runtime.settings import load
from tests.support.gateway import REAL_KEY, GatewayHarness, chat, gateway_harness
from tests.support.model_messages import ModelReply, Tokens
from tests.support.model_server import model_server
from tests.support.scripted_server import server_tls
from tests.support.stores import until

REPLY = ModelReply(text="ok", usage=Tokens(40, 5))
COST = 40 * 1_000 + 5 * 10_000


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def no_word_in_the_log(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    loud = [one for one in caplog.get_records("call") if one.levelno >= logging.WARNING]
    # The scripted provider speaks of the connections it cuts.
    ours = [one for one in loud if one.name != "aiohttp.server"]
    assert not [f"{one.name}: {one.getMessage()}" for one in ours]


async def exchange(harness: GatewayHarness, sent: bytes, *, leave: bool = False) -> bytes:
    """Bytes as they are, on a connection of their own, until the other side ends it."""
    host, port = harness.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    if leave:
        writer.write_eof()
    async with asyncio.timeout(20):
        answer = await reader.read()
    await closed(writer)
    return answer


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def head(harness: GatewayHarness, path: str = "/v1/chat/completions", *lines: str) -> bytes:
    first = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {harness.gateway.token}"]
    return "\r\n".join([*first, "Connection: close", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic eA=="},
        {"x-api-key": "wrong"},
        {"x-api-key": REAL_KEY},
        {"Authorization": "Bearer ä"},
    ],
)
async def test_a_wrong_key_is_refused_and_nothing_is_sent(
    db: Database, headers: dict[str, str]
) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        status, body = await harness.ask(headers=headers)

        assert status == 401
        assert body["error"]["code"] == "invalid_api_key"
        assert harness.provider.requests == []


async def test_either_header_may_carry_the_key(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        assert (await harness.ask(headers={"x-api-key": harness.gateway.token}))[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("HEAD", "/"),
        ("GET", "/v1/models"),
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/files"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1//responses"),
        ("POST", "/v1/responses/../files"),
        ("POST", "/v1/chat%2Fcompletions/x"),
        ("DELETE", "/v1/responses"),
    ],
)
async def test_nothing_else_is_forwarded(db: Database, method: str, path: str) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        headers = {"x-api-key": harness.gateway.token}
        async with harness.http.request(method, harness.url + path, headers=headers) as answer:
            assert answer.status == 404

        assert harness.provider.requests == []


async def test_the_address_of_another_host_is_not_followed(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        answer = await exchange(harness, head(harness, "http://evil.example/v1/files"))

        assert b" 404 " in answer
        assert harness.provider.requests == []


async def test_a_model_without_a_price_is_refused_while_a_budget_applies(db: Database) -> None:
    async with gateway_harness(db, [REPLY], day_usd=1) as harness:
        status, body = await harness.ask(body=chat(model="mystery"))

        assert (status, body["error"]["code"]) == (403, "model_without_price")
        assert "[[prices]]" in harness.notes[0]
        assert harness.provider.requests == []


async def test_options_that_may_cost_extra_never_reach_the_provider_while_a_budget_applies(
    db: Database,
) -> None:
    async with gateway_harness(db, [REPLY], day_usd=1) as harness:
        for name in ("web_search_options", "audio", "plugins"):
            status, body = await harness.ask(body=chat(**{name: {}}))
            assert (status, body["error"]["code"]) == (400, "cost_unknown")
        assert harness.provider.requests == []

        assert (await harness.ask(body=chat(enable_search={})))[0] == 200

        (request,) = harness.provider.requests
        assert "enable_search" not in request.body
        assert "enable_search" in harness.notes[-1]


async def test_without_a_budget_a_model_without_a_price_is_free_and_noted_once(
    db: Database,
) -> None:
    async with gateway_harness(db, [REPLY, REPLY]) as harness:
        for _ in range(2):
            assert (await harness.ask(body=chat(model="mystery")))[0] == 200

        totals = await harness.settled()
        assert (totals.cost_nanousd, totals.requests, totals.input_tokens) == (0, 2, 80)
        assert len(harness.notes) == 1


async def test_a_model_that_is_not_listed_is_refused(db: Database) -> None:
    async with gateway_harness(db, [REPLY], models=("plain-*",)) as harness:
        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (403, "model_not_allowed")


async def test_a_body_that_is_too_large_is_refused(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BYTES", 10_000)
    async with gateway_harness(db, [REPLY]) as harness:
        status, body = await harness.ask(body=chat("x" * 20_000))
        assert (status, body["error"]["code"]) == (413, "request_too_large")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 1_000

        headers = {"x-api-key": harness.gateway.token}
        url = f"{harness.url}/v1/responses"
        async with harness.http.post(url, data=pieces(), headers=headers) as answer:
            assert answer.status == 413
        assert harness.provider.requests == []


async def test_the_memory_for_bodies_is_bounded_and_released(db: Database) -> None:
    async with gateway_harness(db, [REPLY, REPLY]) as harness:
        harness.gateway._body_reader._free = 5_000
        status, body = await harness.ask(body=chat("x" * 6_000))
        assert (status, body["error"]["code"]) == (429, "too_many_requests")

        for _ in range(2):
            assert (await harness.ask(body=chat("x" * 4_000)))[0] == 200
        await until(lambda: harness.gateway._body_reader._free == 5_000)


async def test_a_large_request_arrives_complete(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        text = "ä" * 2_000_000
        body = io.BytesIO(json.dumps(chat(text)).encode())
        headers = {"x-api-key": harness.gateway.token}
        url = f"{harness.url}/v1/chat/completions"
        async with harness.http.post(url, data=body, headers=headers) as answer:
            assert answer.status == 200

        assert harness.provider.requests[0].body["messages"][0]["content"] == text


async def test_a_flood_of_huge_requests_does_not_block_the_event_loop(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "_SLOW_SECONDS", 0)
    body = b'{"messages":[' + b'{"a":1,"b":2},' * 120_000 + b"{}]}"
    async with gateway_harness(db, []) as harness:
        headers = {"x-api-key": harness.gateway.token}

        async def flood() -> int:
            url = f"{harness.url}/v1/chat/completions"
            async with harness.http.post(url, data=io.BytesIO(body), headers=headers) as answer:
                return answer.status

        turns = 0
        floods = asyncio.gather(*(flood() for _ in range(6)))
        while not floods.done():
            await asyncio.sleep(0.001)
            turns += 1

        assert set(await floods) == {400}
        # Between two of them others get four times as long as it took.
        assert turns > 50


async def test_a_compressed_body_is_refused(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        packed = gzip.compress(json.dumps(chat()).encode())
        length = f"Content-Length: {len(packed)}"
        answer = await exchange(
            harness, head(harness, "/v1/responses", length, "Content-Encoding: gzip") + packed
        )

        assert b" 400 " in answer.splitlines()[0]
        assert b"without compression" in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/responses HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"",
    ],
)
async def test_malformed_http_gets_a_response_or_a_close_and_no_log_line(
    db: Database, sent: bytes
) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        answer = await exchange(harness, sent, leave=True)

        assert not answer or b" 400 " in answer.splitlines()[0]
        assert (await harness.ask())[0] == 200


async def test_a_broken_chunked_body_is_refused(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        opening = head(harness, "/v1/responses", "Transfer-Encoding: chunked")
        answer = await exchange(harness, opening + b"5\r\nhello\r\nzz\r\n")

        assert b" 400 " in answer.splitlines()[0]
        assert harness.provider.requests == []


async def test_a_body_that_never_completes_times_out(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SILENCE_SECONDS", 0.2)
    async with gateway_harness(db, [REPLY]) as harness:
        host, port = harness.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head(harness, "/v1/responses", "Transfer-Encoding: chunked") + b"1\r\n{\r\n")
        await until(lambda: harness.gateway._server.active_requests == 1)
        writer.write(b"zz\r\n")

        async with asyncio.timeout(20):
            answer = await reader.readline()
        writer.close()
        assert b" 408 " in answer
        assert harness.gateway._body_reader._free == 4 * bodies.MAX_BYTES


async def test_an_unfinished_body_does_not_block_other_requests(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        opening = head(harness, "/v1/responses", "Content-Length: 50")

        assert await exchange(harness, opening + b"{", leave=True) == b""
        assert (await harness.ask())[0] == 200


async def test_a_client_that_expects_100_continue_gets_it(db: Database) -> None:
    async with gateway_harness(db, [REPLY]) as harness:
        body = json.dumps(chat()).encode()
        lines = (f"Content-Length: {len(body)}", "Expect: 100-continue")
        answer = await exchange(harness, head(harness, "/v1/chat/completions", *lines) + body)

        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


async def test_connections_are_bounded(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_server, "MAX_CONNECTIONS", 2)
    async with gateway_harness(db, [REPLY]) as harness:
        host, port = harness.url.removeprefix("http://").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
        await until(lambda: harness.gateway._server.connections == 2)

        assert await exchange(harness, head(harness)) == b""

        for _, writer in idle:
            await closed(writer)
        await until(lambda: not harness.gateway._server.connections)
        assert (await harness.ask())[0] == 200


async def test_streams_of_one_job_do_not_block_another_job(db: Database) -> None:
    silent = ModelReply(text="a story", hang_after=1, always=True)
    async with (
        gateway_harness(db, [silent]) as first,
        gateway_harness(db, [REPLY], shared=first.session) as second,
        AsyncExitStack() as streams,
        asyncio.timeout(30),
    ):
        headers = {"x-api-key": first.gateway.token}
        url = f"{first.url}/v1/chat/completions"
        # More than an HTTP session opens at once unless told otherwise.
        for _ in range(110):
            asking = first.http.post(url, json=chat(stream=True), headers=headers)
            assert (await streams.enter_async_context(asking)).status == 200

        assert (await second.ask())[0] == 200


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 529])
async def test_errors_of_the_provider_cost_nothing_and_are_forwarded(
    db: Database, status: int
) -> None:
    no = ModelReply(status=status, error=f"no, said to {REAL_KEY}", headers={"retry-after": "7"})
    async with gateway_harness(db, [no], job_usd=1) as harness:
        async with harness.http.post(
            f"{harness.url}/v1/responses",
            json={"model": "priced", "input": "hi"},
            headers={"x-api-key": harness.gateway.token},
        ) as answer:
            body = await answer.json()

        assert answer.status == status
        assert body["error"]["message"] == "no, said to [redacted]"
        assert answer.headers["retry-after"] == "7"
        totals = await harness.settled()
        assert (totals.cost_nanousd, totals.requests) == (0, 1)


async def test_a_provider_key_that_is_rejected_is_reported_to_the_admin(db: Database) -> None:
    async with gateway_harness(db, [REPLY], provider_key="another") as harness:
        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (401, "provider_key_refused")
        assert REAL_KEY not in json.dumps(body)
        assert "agentjobs secrets set" in harness.notes[0]
        assert (await harness.settled()).cost_nanousd == 0


async def test_a_provider_key_with_control_characters_is_reported_to_the_admin(
    db: Database,
) -> None:
    async with gateway_harness(db, [REPLY], key="sk-two\nlines", job_usd=1) as harness:
        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (502, "provider_key_unusable")
        assert "lines" not in json.dumps(body)
        assert (await harness.settled()).cost_nanousd == 0


async def test_a_redirect_is_not_followed(db: Database) -> None:
    away = ModelReply(status=307, headers={"location": "http://evil.example/"})
    async with gateway_harness(db, [away]) as harness:
        status, body = await harness.ask()

        assert (status, body["error"]["code"]) == (502, "provider_redirected")
        assert "model_url" in harness.notes[0]


async def test_an_unreachable_provider_costs_nothing(db: Database, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with gateway_harness(db, [], provider_url=url, job_usd=1) as harness:
        for _ in range(3):
            status, body = await harness.ask()
            assert (status, body["error"]["code"]) == (502, "provider_unreachable")

        assert len(harness.notes) == 1
        assert (await harness.settled()).cost_nanousd == 0


async def test_a_provider_at_an_address_that_is_not_allowed_is_not_dialled(db: Database) -> None:
    async with gateway_harness(db, [REPLY], allowed=(), job_usd=1) as harness:
        status, _ = await harness.ask()

        assert status == 502
        assert "AGENTJOBS_EGRESS_ALLOW" in harness.notes[0]
        assert harness.provider.requests == []
        assert (await harness.settled()).cost_nanousd == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_an_interrupted_response_is_charged_its_reservation(
    db: Database, *, stream: bool
) -> None:
    cut = ModelReply(text="a long story " * 20, cut_after=3)
    async with gateway_harness(db, [cut], job_usd=1) as harness:
        try:
            await harness.ask(body=chat(stream=stream))
        except aiohttp.ClientError:
            assert stream

        totals = await harness.settled()
        assert totals.cost_nanousd == harness.totals[0].cost_nanousd > 100 * 10_000
        assert totals.output_tokens == 100
        assert await harness.spent_today() == totals.cost_nanousd


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_without_usage_is_charged_its_reservation(
    db: Database, *, stream: bool
) -> None:
    async with gateway_harness(db, [ModelReply(text="ok", no_usage=True)], job_usd=1) as harness:
        url = f"{harness.url}/v1/chat/completions"
        headers = {"x-api-key": harness.gateway.token}
        async with harness.http.post(url, json=chat(stream=stream), headers=headers) as answer:
            await answer.read()

        totals = await harness.settled()
        assert totals.cost_nanousd == harness.totals[0].cost_nanousd > 100 * 10_000


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_disconnects_ends_the_providers_work_and_pays_the_reservation(
    db: Database, *, stream: bool
) -> None:
    async with gateway_harness(
        db, [ModelReply(text="a story", hang_after=1)], job_usd=1
    ) as harness:
        asking = asyncio.create_task(harness.ask(body=chat(stream=stream)))
        await until(lambda: bool(harness.provider.requests))
        asking.cancel()

        await until(lambda: bool(harness.provider.abandoned))
        await until(lambda: len(harness.totals) == 2)
        assert harness.totals[1].cost_nanousd == harness.totals[0].cost_nanousd


async def test_closing_ends_running_requests_and_leaves_them_charged(db: Database) -> None:
    async with gateway_harness(
        db, [ModelReply(text="a story", hang_after=1)], job_usd=1
    ) as harness:
        asking = asyncio.create_task(harness.ask(body=chat(stream=True)))
        await until(lambda: bool(harness.provider.requests))

        async with asyncio.timeout(30):
            totals = await harness.settled()

        with pytest.raises(aiohttp.ClientError):
            await asking
        assert totals.cost_nanousd == harness.totals[0].cost_nanousd
        assert await exchange(harness, head(harness)) == b""


async def test_a_request_waits_for_the_reservation_of_another(db: Database) -> None:
    # Either fits alone (about 0.0011), both do not.
    slow = ModelReply(text="slow", when="first", hang_after=1)
    async with gateway_harness(db, [slow, REPLY], job_usd=0.0015) as harness:
        first = asyncio.create_task(harness.ask(body=chat("first", stream=True)))
        await until(lambda: len(harness.provider.requests) == 1)
        second = asyncio.create_task(harness.ask(body=chat("second")))
        waiting = harness.gateway._budget
        await until(lambda: bool(waiting._settled._waiters))

        first.cancel()

        # The first was cut, so it is charged whole, and the second does not fit any more.
        status, body = await second
        assert (status, body["error"]["code"]) == (402, "budget_exceeded")
        assert len(harness.exceeded) == 1
        assert len(harness.provider.requests) == 1


async def test_the_reservation_of_a_disconnected_client_is_returned(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_harness(db, [REPLY], job_usd=1) as harness:
        ledger = harness.gateway._budget._ledger
        reserve, asked, go_on = ledger.reserve, asyncio.Event(), asyncio.Event()

        async def slow(nanousd: int) -> Any:
            asked.set()
            await go_on.wait()
            return await reserve(nanousd)

        monkeypatch.setattr(ledger, "reserve", slow)
        asking = asyncio.create_task(harness.ask())
        await asked.wait()
        asking.cancel()
        await until(lambda: not harness.gateway._server.active_requests)
        go_on.set()

        totals = await harness.settled()
        assert (totals.cost_nanousd, totals.requests) == (0, 1)
        assert harness.provider.requests == []


async def test_a_request_that_can_never_fit_is_refused_at_once(db: Database) -> None:
    slow = ModelReply(text="slow", hang_after=1)
    async with gateway_harness(db, [slow], job_usd=0.0015) as harness:
        first = asyncio.create_task(harness.ask(body=chat("first", stream=True)))
        await until(lambda: len(harness.provider.requests) == 1)

        status, _ = await harness.ask(body=chat("second", max_tokens=1_000))

        assert status == 402
        first.cancel()


async def test_events_arrive_one_by_one_as_the_provider_sends_them(db: Database) -> None:
    async with gateway_harness(db, [ModelReply(text="a long story", hang_after=2)]) as harness:
        url = f"{harness.url}/v1/chat/completions"
        headers = {"x-api-key": harness.gateway.token}
        async with harness.http.post(url, json=chat(stream=True), headers=headers) as answer:
            async with asyncio.timeout(30):
                while b"a long story" not in (await answer.content.readline()):
                    pass
            assert answer.headers["content-type"].startswith("text/event-stream")


async def test_an_unavailable_store_is_reported_as_retryable(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_harness(db, [REPLY], job_usd=1) as harness:
        from agentjobs.store.database import StoreUnavailable

        async def away(_: int) -> Any:
            raise StoreUnavailable("gone")

        monkeypatch.setattr(harness.gateway._budget._ledger, "reserve", away)
        async with harness.http.post(
            f"{harness.url}/v1/chat/completions",
            json=chat(),
            headers={"x-api-key": harness.gateway.token},
        ) as answer:
            assert answer.status == 503
            assert "x-should-retry" not in answer.headers
        assert harness.provider.requests == []


async def test_a_compressed_response_is_forwarded_without_foreign_headers(db: Database) -> None:
    async def odd(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return web.Response(
            body=gzip.compress(b"{}"),
            headers={"Content-Encoding": "gzip", "Set-Cookie": "a=b", "Content-Type": "text/x"},
        )

    server = web.Server(odd)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with gateway_harness(db, [], provider_url=url, job_usd=1) as harness:
        headers = {"x-api-key": harness.gateway.token}
        path = f"{harness.url}/v1/chat/completions"
        async with harness.http.post(path, json=chat(), headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
            assert "set-cookie" not in answer.headers
        assert (await harness.settled()).cost_nanousd == harness.totals[0].cost_nanousd
    listener.close()
    await server.shutdown(1)


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_provider_with_a_private_authority_needs_the_operators_certificates(
    db: Database, tmp_path: Path, is_trusted: bool
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    environ = {"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8"}
    if is_trusted:
        environ["AGENTJOBS_CA_FILE"] = str(tmp_path / "ca.pem")
    async with (
        model_server([REPLY], key=REAL_KEY, tls=server_tls(authority)) as provider,
        # As a worker makes it.
        open_session(load(environ)) as session,
        gateway_harness(db, provider_url=provider.url, shared=session) as harness,
    ):
        status, _ = await harness.ask()
    assert status == (200 if is_trusted else 502)
    assert any("AGENTJOBS_CA_FILE" in note for note in harness.notes) is not is_trusted

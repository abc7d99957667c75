"""The gateway under odd clients, odd providers and ends in the middle."""

import asyncio
import contextlib
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from agentjobs.gateway import gateway as gateways
from agentjobs.gateway import requests
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.gateway import REAL_KEY, Room, chat, room
from tests.support.model_messages import Answer, Tokens
from tests.support.stores import until

ANSWER = Answer(text="ok", usage=Tokens(40, 5))
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


async def exchange(place: Room, sent: bytes, *, leave: bool = False) -> bytes:
    """Bytes as they are, on a connection of their own, until the other side ends it."""
    host, port = place.url.removeprefix("http://").split(":")
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


def head(place: Room, path: str = "/v1/chat/completions", *lines: str) -> bytes:
    first = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {place.gateway.token}"]
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
    async with room(db, [ANSWER]) as place:
        status, body = await place.ask(headers=headers)

        assert status == 401
        assert body["error"]["code"] == "invalid_api_key"
        assert place.provider.requests == []


async def test_either_header_may_carry_the_key(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        assert (await place.ask(headers={"x-api-key": place.gateway.token}))[0] == 200


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
    async with room(db, [ANSWER]) as place:
        headers = {"x-api-key": place.gateway.token}
        async with place.http.request(method, place.url + path, headers=headers) as answer:
            assert answer.status == 404

        assert place.provider.requests == []


async def test_the_address_of_another_host_is_not_followed(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        answer = await exchange(place, head(place, "http://evil.example/v1/files"))

        assert b" 404 " in answer
        assert place.provider.requests == []


async def test_a_model_without_a_price_is_refused_while_a_budget_applies(db: Database) -> None:
    async with room(db, [ANSWER], day_usd=1) as place:
        status, body = await place.ask(body=chat(model="mystery"))

        assert (status, body["error"]["code"]) == (403, "model_without_price")
        assert "[[prices]]" in place.notes[0]
        assert place.provider.requests == []


async def test_without_a_budget_a_model_without_a_price_is_free_and_noted_once(
    db: Database,
) -> None:
    async with room(db, [ANSWER, ANSWER]) as place:
        for _ in range(2):
            assert (await place.ask(body=chat(model="mystery")))[0] == 200

        totals = await place.settled()
        assert (totals.cost_nanousd, totals.requests, totals.input_tokens) == (0, 2, 80)
        assert len(place.notes) == 1


async def test_a_model_that_is_not_listed_is_refused(db: Database) -> None:
    async with room(db, [ANSWER], models=("plain-*",)) as place:
        status, body = await place.ask()

        assert (status, body["error"]["code"]) == (403, "model_not_allowed")


async def test_a_body_that_is_too_large_is_refused(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_BYTES", 10_000)
    async with room(db, [ANSWER]) as place:
        status, body = await place.ask(body=chat("x" * 20_000))
        assert (status, body["error"]["code"]) == (413, "request_too_large")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 1_000

        headers = {"x-api-key": place.gateway.token}
        url = f"{place.url}/v1/responses"
        async with place.http.post(url, data=pieces(), headers=headers) as answer:
            assert answer.status == 413
        assert place.provider.requests == []


async def test_bodies_held_at_once_are_bounded_and_given_back(db: Database) -> None:
    async with room(db, [ANSWER, ANSWER]) as place:
        place.gateway._body_reader._free = 5_000
        status, body = await place.ask(body=chat("x" * 6_000))
        assert (status, body["error"]["code"]) == (429, "too_many_requests")

        for _ in range(2):
            assert (await place.ask(body=chat("x" * 4_000)))[0] == 200
        await until(lambda: place.gateway._body_reader._free == 5_000)


async def test_a_large_request_arrives_whole(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        text = "ä" * 2_000_000
        body = io.BytesIO(json.dumps(chat(text)).encode())
        headers = {"x-api-key": place.gateway.token}
        url = f"{place.url}/v1/chat/completions"
        async with place.http.post(url, data=body, headers=headers) as answer:
            assert answer.status == 200

        assert place.provider.requests[0].body["messages"][0]["content"] == text


async def test_a_flood_of_huge_requests_leaves_the_event_loop_to_others(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "_SLOW_SECONDS", 0)
    body = b'{"messages":[' + b'{"a":1,"b":2},' * 120_000 + b"{}]}"
    async with room(db, []) as place:
        headers = {"x-api-key": place.gateway.token}

        async def flood() -> int:
            url = f"{place.url}/v1/chat/completions"
            async with place.http.post(url, data=io.BytesIO(body), headers=headers) as answer:
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
    async with room(db, [ANSWER]) as place:
        packed = gzip.compress(json.dumps(chat()).encode())
        length = f"Content-Length: {len(packed)}"
        answer = await exchange(
            place, head(place, "/v1/responses", length, "Content-Encoding: gzip") + packed
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
async def test_garbage_gets_an_answer_or_an_end_and_no_log_line(db: Database, sent: bytes) -> None:
    async with room(db, [ANSWER]) as place:
        answer = await exchange(place, sent, leave=True)

        assert not answer or b" 400 " in answer.splitlines()[0]
        assert (await place.ask())[0] == 200


async def test_a_broken_chunked_body_is_refused(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        opening = head(place, "/v1/responses", "Transfer-Encoding: chunked")
        answer = await exchange(place, opening + b"5\r\nhello\r\nzz\r\n")

        assert b" 400 " in answer.splitlines()[0]
        assert place.provider.requests == []


async def test_a_body_that_breaks_off_does_not_hold_its_client_for_ever(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SILENCE_SECONDS", 0.2)
    async with room(db, [ANSWER]) as place:
        host, port = place.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head(place, "/v1/responses", "Transfer-Encoding: chunked") + b"1\r\n{\r\n")
        await until(lambda: bool(place.gateway._handlers))
        writer.write(b"zz\r\n")

        async with asyncio.timeout(20):
            answer = await reader.readline()
        writer.close()
        assert b" 408 " in answer
        assert place.gateway._body_reader._free == 4 * requests.MAX_BYTES


async def test_a_body_that_never_ends_holds_nothing_up(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        opening = head(place, "/v1/responses", "Content-Length: 50")

        assert await exchange(place, opening + b"{", leave=True) == b""
        assert (await place.ask())[0] == 200


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(db: Database) -> None:
    async with room(db, [ANSWER]) as place:
        body = json.dumps(chat()).encode()
        lines = (f"Content-Length: {len(body)}", "Expect: 100-continue")
        answer = await exchange(place, head(place, "/v1/chat/completions", *lines) + body)

        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


async def test_connections_are_bounded(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "MAX_CONNECTIONS", 2)
    async with room(db, [ANSWER]) as place:
        host, port = place.url.removeprefix("http://").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
        await until(lambda: len(place.gateway._server.connections) == 2)

        assert await exchange(place, head(place)) == b""

        for _, writer in idle:
            await closed(writer)
        await until(lambda: not place.gateway._server.connections)
        assert (await place.ask())[0] == 200


async def test_one_jobs_streams_do_not_keep_another_job_from_the_provider(db: Database) -> None:
    silent = Answer(text="a story", hang_after=1, always=True)
    async with (
        room(db, [silent]) as first,
        room(db, [ANSWER], shared=first.session) as second,
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
async def test_what_the_provider_refuses_costs_nothing_and_is_passed_on(
    db: Database, status: int
) -> None:
    no = Answer(status=status, error=f"no, said to {REAL_KEY}", headers={"retry-after": "7"})
    async with room(db, [no], job_usd=1) as place:
        async with place.http.post(
            f"{place.url}/v1/responses",
            json={"model": "priced", "input": "hi"},
            headers={"x-api-key": place.gateway.token},
        ) as answer:
            body = await answer.json()

        assert answer.status == status
        assert body["error"]["message"] == "no, said to [redacted]"
        assert answer.headers["retry-after"] == "7"
        totals = await place.settled()
        assert (totals.cost_nanousd, totals.requests) == (0, 1)


async def test_a_key_that_the_provider_refuses_is_an_administrators_matter(db: Database) -> None:
    async with room(db, [ANSWER], provider_key="another") as place:
        status, body = await place.ask()

        assert (status, body["error"]["code"]) == (401, "provider_key_refused")
        assert REAL_KEY not in json.dumps(body)
        assert "agentjobs secrets set" in place.notes[0]
        assert (await place.settled()).cost_nanousd == 0


async def test_a_key_that_no_request_can_carry_is_an_administrators_matter(db: Database) -> None:
    async with room(db, [ANSWER], key="sk-two\nlines", job_usd=1) as place:
        status, body = await place.ask()

        assert (status, body["error"]["code"]) == (502, "provider_key_unusable")
        assert "lines" not in json.dumps(body)
        assert (await place.settled()).cost_nanousd == 0


async def test_a_redirect_is_not_followed(db: Database) -> None:
    away = Answer(status=307, headers={"location": "http://evil.example/"})
    async with room(db, [away]) as place:
        status, body = await place.ask()

        assert (status, body["error"]["code"]) == (502, "provider_redirected")
        assert "model_url" in place.notes[0]


async def test_a_provider_that_is_away_costs_nothing(db: Database, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with room(db, [], provider_url=url, job_usd=1) as place:
        for _ in range(3):
            status, body = await place.ask()
            assert (status, body["error"]["code"]) == (502, "provider_unreachable")

        assert len(place.notes) == 1
        assert (await place.settled()).cost_nanousd == 0


async def test_a_provider_at_an_address_that_is_not_allowed_is_not_dialled(db: Database) -> None:
    async with room(db, [ANSWER], allowed=(), job_usd=1) as place:
        status, _ = await place.ask()

        assert status == 502
        assert "AGENTJOBS_EGRESS_ALLOW" in place.notes[0]
        assert place.provider.requests == []
        assert (await place.settled()).cost_nanousd == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_is_cut_is_charged_its_reservation(
    db: Database, *, stream: bool
) -> None:
    cut = Answer(text="a long story " * 20, cut_after=3)
    async with room(db, [cut], job_usd=1) as place:
        try:
            await place.ask(body=chat(stream=stream))
        except aiohttp.ClientError:
            assert stream

        totals = await place.settled()
        assert totals.cost_nanousd == place.told[0].cost_nanousd > 100 * 10_000
        assert totals.output_tokens == 100
        assert await place.spent_today() == totals.cost_nanousd


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_without_usage_is_charged_its_reservation(
    db: Database, *, stream: bool
) -> None:
    async with room(db, [Answer(text="ok", no_usage=True)], job_usd=1) as place:
        url = f"{place.url}/v1/chat/completions"
        headers = {"x-api-key": place.gateway.token}
        async with place.http.post(url, json=chat(stream=stream), headers=headers) as answer:
            await answer.read()

        totals = await place.settled()
        assert totals.cost_nanousd == place.told[0].cost_nanousd > 100 * 10_000


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_the_providers_work_and_pays_the_reservation(
    db: Database, *, stream: bool
) -> None:
    async with room(db, [Answer(text="a story", hang_after=1)], job_usd=1) as place:
        asking = asyncio.create_task(place.ask(body=chat(stream=stream)))
        await until(lambda: bool(place.provider.requests))
        asking.cancel()

        await until(lambda: bool(place.provider.left))
        await until(lambda: len(place.told) == 2)
        assert place.told[1].cost_nanousd == place.told[0].cost_nanousd


async def test_closing_ends_what_is_under_way_and_leaves_it_charged(db: Database) -> None:
    async with room(db, [Answer(text="a story", hang_after=1)], job_usd=1) as place:
        asking = asyncio.create_task(place.ask(body=chat(stream=True)))
        await until(lambda: bool(place.provider.requests))

        async with asyncio.timeout(5):
            totals = await place.settled()

        with pytest.raises(aiohttp.ClientError):
            await asking
        assert totals.cost_nanousd == place.told[0].cost_nanousd
        assert await exchange(place, head(place)) == b""


async def test_a_request_waits_for_the_one_that_holds_the_budget(db: Database) -> None:
    # Either fits alone (about 0.0011), both do not.
    slow = Answer(text="slow", when="first", hang_after=1)
    async with room(db, [slow, ANSWER], job_usd=0.0015) as place:
        first = asyncio.create_task(place.ask(body=chat("first", stream=True)))
        await until(lambda: len(place.provider.requests) == 1)
        second = asyncio.create_task(place.ask(body=chat("second")))
        waiting = place.gateway._budget
        await until(lambda: bool(waiting._settled._waiters))

        first.cancel()

        # The first was cut, so it is charged whole, and the second does not fit any more.
        status, body = await second
        assert (status, body["error"]["code"]) == (402, "budget_exceeded")
        assert len(place.exceeded) == 1
        assert len(place.provider.requests) == 1


async def test_what_was_reserved_for_a_client_that_left_is_given_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(db, [ANSWER], job_usd=1) as place:
        ledger = place.gateway._budget._ledger
        reserve, asked, go_on = ledger.reserve, asyncio.Event(), asyncio.Event()

        async def slow(nanousd: int) -> Any:
            asked.set()
            await go_on.wait()
            return await reserve(nanousd)

        monkeypatch.setattr(ledger, "reserve", slow)
        asking = asyncio.create_task(place.ask())
        await asked.wait()
        asking.cancel()
        await until(lambda: not place.gateway._handlers)
        go_on.set()

        totals = await place.settled()
        assert (totals.cost_nanousd, totals.requests) == (0, 1)
        assert place.provider.requests == []


async def test_what_never_fits_is_refused_at_once_beside_others(db: Database) -> None:
    slow = Answer(text="slow", hang_after=1)
    async with room(db, [slow], job_usd=0.0015) as place:
        first = asyncio.create_task(place.ask(body=chat("first", stream=True)))
        await until(lambda: len(place.provider.requests) == 1)

        status, _ = await place.ask(body=chat("second", max_tokens=1_000))

        assert status == 402
        first.cancel()


async def test_events_arrive_one_by_one_as_the_provider_sends_them(db: Database) -> None:
    async with room(db, [Answer(text="a long story", hang_after=2)]) as place:
        url = f"{place.url}/v1/chat/completions"
        headers = {"x-api-key": place.gateway.token}
        async with place.http.post(url, json=chat(stream=True), headers=headers) as answer:
            async with asyncio.timeout(10):
                while b"a long story" not in (await answer.content.readline()):
                    pass
            assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_store_that_is_away_is_said_and_may_be_tried_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(db, [ANSWER], job_usd=1) as place:
        from agentjobs.store.database import StoreUnavailable

        async def away(_: int) -> Any:
            raise StoreUnavailable("gone")

        monkeypatch.setattr(place.gateway._budget._ledger, "reserve", away)
        async with place.http.post(
            f"{place.url}/v1/chat/completions",
            json=chat(),
            headers={"x-api-key": place.gateway.token},
        ) as answer:
            assert answer.status == 503
            assert "x-should-retry" not in answer.headers
        assert place.provider.requests == []


async def test_an_odd_provider_does_not_harm(db: Database) -> None:
    async def odd(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return web.Response(
            body=gzip.compress(b"{}"),
            headers={"Content-Encoding": "gzip", "Set-Cookie": "a=b", "Content-Type": "text/x"},
        )

    server = web.Server(odd)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with room(db, [], provider_url=url, job_usd=1) as place:
        headers = {"x-api-key": place.gateway.token}
        path = f"{place.url}/v1/chat/completions"
        async with place.http.post(path, json=chat(), headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
            assert "set-cookie" not in answer.headers
        assert (await place.settled()).cost_nanousd == place.told[0].cost_nanousd
    listener.close()
    await server.shutdown(1)

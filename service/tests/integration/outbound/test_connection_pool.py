"""Connections that may be reused, and connections that must not be."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentjobs.webhooks.untrusted_http import pool
from tests.support import bad_receivers as bad
from tests.support.bad_receivers import in_sequence, receiver, response
from tests.support.delivery_attempts import AT_MS, BODY, LOOPS, Run, send, webhook_client

OK = response(200, body=b"ok")

# After one of these responses the next request needs a new connection.
FINAL_RESPONSES = {
    "the end announced": response(200, {"Connection": "close"}),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    "data after the end": OK + b"more",
    "a second response": OK + response(500),
    "a body where none may be": b"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nbody",
    "a longer body than is read": response(200, body=b"x" * 20_000),
    "a malformed body": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
}


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize("response_bytes", FINAL_RESPONSES.values(), ids=FINAL_RESPONSES)
def test_a_connection_is_not_reused_after_a_final_response(run: Run, response_bytes: bytes) -> None:
    async def check() -> None:
        async with receiver(in_sequence(response_bytes)) as served, webhook_client() as client:
            attempts = [await send(client, served.url()) for _ in range(3)]
            assert [attempt.error for attempt in attempts] == [None] * 3
            assert served.connections == 3

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_protocol_switch_is_not_followed(run: Run) -> None:
    response_bytes = b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nanything"

    async def check() -> None:
        async with receiver(in_sequence(response_bytes)) as served, webhook_client() as client:
            attempts = [await send(client, served.url()) for _ in range(2)]
            assert {(attempt.error_class, attempt.status_code) for attempt in attempts} == {
                ("http_status", 101)
            }
            assert served.connections == 2

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_connection_is_reused_after_a_chunked_response(run: Run) -> None:
    response_bytes = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: x\r\n\r\n"
    )

    async def check() -> None:
        async with receiver(in_sequence(response_bytes)) as served, webhook_client() as client:
            attempts = [await send(client, served.url()) for _ in range(3)]
            assert {attempt.response_body for attempt in attempts} == {b"ok"}
            assert {attempt.response_headers for attempt in attempts} == {
                (("Transfer-Encoding", "chunked"),)
            }
            assert served.connections == 1

    run(check())


Parting = Callable[[bad.Connection], Awaitable[None]]


async def closes(connection: bad.Connection) -> None:
    connection.writer.close()
    await connection.writer.wait_closed()


async def resets(connection: bad.Connection) -> None:
    connection.reset()


async def goes_on_talking(connection: bad.Connection) -> None:
    await connection.send(response(500))


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize("part", [closes, resets, goes_on_talking])
def test_a_connection_that_was_closed_or_sent_data_while_idle_is_not_reused(
    run: Run, part: Parting
) -> None:
    async def check() -> None:
        may_part, parted = asyncio.Event(), asyncio.Event()

        async def behave(connection: bad.Connection) -> None:
            await connection.request()
            await connection.send(OK)
            await may_part.wait()
            await part(connection)
            parted.set()
            await connection.until_closed()

        async with receiver(behave) as served, webhook_client() as client:
            assert (await send(client, served.url())).succeeded
            may_part.set()
            await parted.wait()
            attempt = await send(client, served.url())
            assert (attempt.status_code, attempt.error) == (200, None)
            assert served.connections == 2

    run(check())


async def test_data_before_the_request_is_not_a_response() -> None:
    async def behave(connection: bad.Connection) -> None:
        await connection.send(response(200, {"Connection": "close"}))
        await connection.until_closed()

    async with receiver(behave) as served, webhook_client() as client:
        attempts = [await send(client, served.url()) for _ in range(20)]
    # A race: the data may also arrive just after the request.
    assert {attempt.error_class for attempt in attempts} <= {None, "protocol"}
    assert served.connections == 20


@pytest.mark.parametrize("run", LOOPS)
def test_an_idle_connection_is_closed_after_the_keepalive_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "KEEPALIVE_SECONDS", 0.05)

    async def check() -> None:
        was_left = asyncio.Event()

        async def behave(connection: bad.Connection) -> None:
            await connection.request()
            await connection.send(OK)
            await connection.until_closed()
            was_left.set()

        async with receiver(behave) as served, webhook_client() as client:
            assert (await send(client, served.url())).succeeded
            async with asyncio.timeout(60):
                await was_left.wait()

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_the_most_recently_used_connection_is_reused_first(run: Run) -> None:
    async def check() -> None:
        async with receiver(in_sequence(OK)) as served, webhook_client() as client:
            await asyncio.gather(*(send(client, served.url()) for _ in range(5)))
            visits = served.connections
            for _ in range(20):
                assert (await send(client, served.url())).succeeded
            assert served.connections == visits

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_closing_the_client_closes_all_connections(run: Run) -> None:
    async def check() -> None:
        left = 0

        async def behave(connection: bad.Connection) -> None:
            nonlocal left
            await connection.request()
            await connection.send(OK)
            await connection.until_closed()
            left += 1
            connection.receiver.changed.set()

        async with receiver(behave) as served:
            async with webhook_client() as client:
                await asyncio.gather(*(send(client, served.url()) for _ in range(5)))
            async with asyncio.timeout(60):
                await served.until(lambda _: left == 5)

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_an_attempt_cancelled_after_the_response_head_is_kept(run: Run) -> None:
    async def check() -> None:
        head_was_sent = asyncio.Event()

        async def behave(connection: bad.Connection) -> None:
            await connection.request()
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            head_was_sent.set()
            await connection.until_closed()

        async with (
            receiver(behave) as half,
            receiver(in_sequence(OK)) as good,
            webhook_client() as client,
        ):
            waiting = asyncio.create_task(send(client, half.url()))
            await head_was_sent.wait()
            # Data that arrived before this response has been read as well.
            assert (await send(client, good.url(), "good")).succeeded
            waiting.cancel()
            attempt = await waiting
        assert (attempt.status_code, attempt.response_body) == (200, b"half")

    run(check())


async def test_a_header_with_a_line_break_is_not_sent() -> None:
    async with receiver(in_sequence(OK)) as served, webhook_client() as client:
        headers = {"X-A": "a\r\nX-B: b"}
        attempt = await client.post("whk_1", served.url(), headers, BODY, at_ms=AT_MS)
        assert (attempt.error_class, attempt.address) == ("protocol", None)
        assert "nothing was sent" in (attempt.error or "")
        assert served.connections == 0

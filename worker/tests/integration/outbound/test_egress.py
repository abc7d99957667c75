"""The allow-list proxy with well-behaved and misbehaving clients and servers."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop

from agentjobs_runtime.outbound.egress import egress, policy, proxy
from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.guard import dial
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import MAX_JOB_LOOKUPS, Lookup
from tests.support.sandbox import eventually
from tests.support.silent_resolver import silent_resolver
from tests.support.tls_hello import client_hello, split_records

OnLoop = Callable[[Coroutine[Any, Any, None]], None]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    return uvloop.run if request.param == "uvloop" else asyncio.run


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def lookup(host: str) -> Sequence[str]:
    if host == "nowhere.test":
        raise OSError("Name or service not known")
    return {"closed.test": ["127.0.0.9"], "empty.test": []}.get(host, ["127.0.0.1"])


@dataclass
class ProxyHarness:
    """An Egress on a local port, and the server behind it."""

    egress: Egress
    proxy_port: int
    server_port: int
    refused: list[str]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.proxy_port)

    async def say(self, request: bytes) -> bytes:
        """Returns everything the proxy sends until it closes the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    async def tunnel(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(b"CONNECT ok.test:%d HTTP/1.1\r\n\r\n" % self.server_port)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        return reader, writer

    def get(self, *headers: str, path: str = "/") -> bytes:
        target = f"http://ok.test:{self.server_port}{path}"
        return "\r\n".join([f"GET {target} HTTP/1.1", *headers, "", ""]).encode()


@asynccontextmanager
async def proxy_for(
    handler: Handler, *patterns: str, lookup: Lookup = lookup, any_host: bool = False
) -> AsyncIterator[ProxyHarness]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    refused: list[str] = []
    egress = Egress(
        None if any_host else [f"ok.test:{port}", *patterns],
        AllowList.parse(["127.0.0.0/8"]),
        refused.append,
        lookup=lookup,
    )
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(egress.ports[PROXY_PORT], "127.0.0.1", 0)
    try:
        yield ProxyHarness(egress, listener.sockets[0].getsockname()[1], port, refused)
    finally:
        listener.close()
        server.close()
        await egress.close()
        # The peers see the close in the next iterations of the event loop.
        for _ in range(5):
            await asyncio.sleep(0)


async def _hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    return


async def _echo_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Responds only after the client has sent everything."""
    received = await reader.read()
    writer.write(b"received " + received)
    await writer.drain()


async def _repeat_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(head))
    writer.write(b"Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n\r\n")
    writer.write(head)
    await writer.drain()


async def _flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(bytes(64 * 1024))
        await writer.drain()


async def test_any_host_is_reached_whose_address_the_guard_allows() -> None:
    def somewhere(host: str) -> Sequence[str]:
        return ["10.1.2.3" if host == "inside.test" else "127.0.0.1"]

    async with proxy_for(_repeat_head, lookup=somewhere, any_host=True) as harness:
        assert dict(harness.egress.hosts) == {}
        assert set(harness.egress.ports) == {PROXY_PORT}
        request = b"GET http://%s:%d/ HTTP/1.1\r\n\r\n"
        answer = await harness.say(request % (b"any.test", harness.server_port))
        assert answer.startswith(b"HTTP/1.1 200 ")
        answer = await harness.say(request % (b"inside.test", harness.server_port))
        assert answer.startswith(b"HTTP/1.1 403 ")
        [reason] = harness.refused
        assert "10.1.2.3 is a private address" in reason


def test_a_tunnel_relays_the_end_of_one_side_and_keeps_the_other(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_echo_at_the_end) as harness:
            reader, writer = await harness.tunnel()
            writer.write(bytes(300_000))
            writer.write_eof()
            assert await reader.read() == b"received " + bytes(300_000)
            writer.close()

    on_loop(check())


def test_bytes_sent_right_after_connect_are_not_lost(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_echo_at_the_end) as harness:
            reader, writer = await harness.connect()
            writer.write(b"CONNECT ok.test:%d HTTP/1.1\r\n\r\nearly" % harness.server_port)
            writer.write_eof()
            assert (await reader.read()).endswith(b"\r\n\r\nreceived early")
            writer.close()

    on_loop(check())


def test_a_client_that_does_not_read_slows_the_server_down(on_loop: OnLoop) -> None:
    sent: list[int] = []

    async def check() -> None:
        held_back = asyncio.Event()

        async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while not held_back.is_set():
                writer.write(bytes(64 * 1024))
                taken = asyncio.ensure_future(writer.drain())
                done, _ = await asyncio.wait({taken}, timeout=0.3)
                sent.append(64 * 1024)
                if not done:
                    held_back.set()
                    taken.cancel()

        async with proxy_for(send) as harness:
            _, writer = await harness.tunnel()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.wait_for(held_back.wait(), 20)
            assert sum(sent) < 64 * 1024 * 1024
            writer.transport.abort()

    on_loop(check())


def test_closing_aborts_connections_and_refuses_new_ones(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_flood) as harness:
            tunnels = [await harness.tunnel() for _ in range(20)]
            idle = await harness.connect()
            await asyncio.wait_for(harness.egress.close(), 5)
            for reader, writer in (*tunnels, idle):
                with contextlib.suppress(ConnectionError):
                    while await asyncio.wait_for(reader.read(1 << 20), 5):
                        pass
                writer.close()
            with contextlib.suppress(ConnectionError):
                assert await harness.say(harness.get()) == b""

    on_loop(check())


def test_a_plain_request_is_forwarded_without_hop_by_hop_headers(
    on_loop: OnLoop,
) -> None:
    async def check() -> None:
        async with proxy_for(_repeat_head) as harness:
            answer = await harness.say(
                harness.get(
                    "Host: other.test",
                    "Proxy-Authorization: Basic c2VjcmV0",
                    "Proxy-Connection: keep-alive",
                    "Connection: keep-alive, X-Mine",
                    "X-Mine: 1",
                    "Accept: */*",
                    path="/a?b=c",
                )
            )
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.split(b"\r\n")[::2] == [b"HTTP/1.1 200 OK", b"Connection: close"]
            assert body.decode().split("\r\n")[:-2] == [
                "GET /a?b=c HTTP/1.1",
                f"Host: ok.test:{harness.server_port}",
                "Accept: */*",
                "Connection: close",
            ]

    on_loop(check())


def test_an_interim_response_precedes_the_final_one(on_loop: OnLoop) -> None:
    async def ask_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()

    async def check() -> None:
        async with proxy_for(ask_first) as harness:
            reader, writer = await harness.connect()
            writer.write(harness.get("Expect: 100-continue", "Content-Length: 4"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert await reader.read() == b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
            writer.close()

    on_loop(check())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01 garbage\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        (b"GET https://ok.test/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://ok.test/ HTTP/2.0\r\n\r\n", 400),
        (b"GET http://ok.test:99999/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://ok.test/ HTTP/1.1\r\nX: a\r\n folded\r\n\r\n", 400),
        (b"GET http://ok.test/ HTTP/1.1\r\nBad Name: a\r\n\r\n", 400),
        (b"CONNECT ok.test HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT ok.test:443@evil.test:443 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", 403),
        (b"CONNECT ok.test:22 HTTP/1.1\r\n\r\n", 403),
        (b"CONNECT ok.test.evil.test:443 HTTP/1.1\r\n\r\n", 403),
        (b"GET http://ok.test@evil.test/ HTTP/1.1\r\n\r\n", 403),
        (b"GET http://x.test/ HTTP/1.1\r\nX: " + b"x" * 17_000 + b"\r\n\r\n", 431),
        (b"CONNECT nowhere.test:443 HTTP/1.1\r\n\r\n", 502),
        (b"CONNECT closed.test:443 HTTP/1.1\r\n\r\n", 502),
        (b"CONNECT empty.test:443 HTTP/1.1\r\n\r\n", 502),
    ],
)
def test_every_refused_request_gets_a_response(
    on_loop: OnLoop, request_bytes: bytes, status: int
) -> None:
    async def check() -> None:
        async with proxy_for(_hang_up, "nowhere.test", "closed.test", "empty.test") as harness:
            head, _, body = (await harness.say(request_bytes)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status), head
            assert body.startswith(b"agentjobs: ")

    on_loop(check())


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X" * 99_999]
)
def test_a_server_that_does_not_speak_http_is_a_bad_gateway(on_loop: OnLoop, answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async def check() -> None:
        async with proxy_for(speak) as harness:
            assert (await harness.say(harness.get())).startswith(b"HTTP/1.1 502 ")

    on_loop(check())


def test_a_client_that_leaves_silently_leaves_nothing_behind(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_flood) as harness:
            for request_start in (b"", b"CONN", harness.get()[:-2]):
                _, writer = await harness.connect()
                writer.write(request_start)
                writer.close()
            _, writer = await harness.tunnel()
            writer.transport.abort()
            await eventually(lambda: not harness.egress._connections)

    on_loop(check())


def test_a_slow_request_head_times_out(on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 0.05)

    async def check() -> None:
        async with proxy_for(_hang_up) as harness:
            assert (await harness.say(b"GET http://ok")).startswith(b"HTTP/1.1 408 ")

    on_loop(check())


def test_a_silent_host_times_out(on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.05)

    async def check() -> None:
        with silent_resolver() as names:
            async with proxy_for(_hang_up, "silent.test", lookup=names.lookup) as harness:
                answer = await harness.say(b"CONNECT silent.test:443 HTTP/1.1\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 504 ")
                assert harness.refused == [
                    "silent.test:443 could not be reached: connection timed out"
                ]

    on_loop(check())


def test_silent_addresses_do_not_delay_the_one_that_responds(on_loop: OnLoop) -> None:
    addresses = [f"127.0.0.{number}" for number in range(11, 15)]

    async def check() -> None:
        async with proxy_for(
            _echo_at_the_end, lookup=lambda _: [*addresses, "127.0.0.1"]
        ) as harness:
            with contextlib.ExitStack() as stack:
                for address in addresses:
                    stack.enter_context(_silent_listener(address, harness.server_port))
                _, writer = await harness.tunnel()
                writer.close()

    on_loop(check())


@contextlib.contextmanager
def _silent_listener(address: str, port: int) -> Iterator[None]:
    """Fills the accept queue, so the kernel drops further connection attempts."""
    with socket.create_server((address, port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((address, port))
        yield


def test_lookups_without_a_response_do_not_block_other_jobs(on_loop: OnLoop) -> None:
    async def check() -> None:
        with silent_resolver() as names:
            async with (
                proxy_for(_hang_up, "*.silent.test", lookup=names.lookup) as slow,
                proxy_for(_echo_at_the_end) as good,
                asyncio.timeout(30),
            ):
                opened = [(await slow.connect())[1] for _ in range(3 * MAX_JOB_LOOKUPS)]
                for n, writer in enumerate(opened):
                    writer.write(b"CONNECT n%d.silent.test:443 HTTP/1.1\r\n\r\n" % n)
                await eventually(lambda: len(names.lookups) == MAX_JOB_LOOKUPS)

                opened.append((await good.tunnel())[1])
                for writer in opened:
                    writer.close()

    on_loop(check())


def test_connections_are_limited_and_the_limit_reported_once(
    on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress, "MAX_CONNECTIONS", 3)

    async def check() -> None:
        async with proxy_for(_echo_at_the_end) as harness:
            held = [await harness.tunnel() for _ in range(3)]
            for _ in range(2):
                with contextlib.suppress(ConnectionError):
                    assert await harness.say(harness.get()) == b""
            assert harness.refused == ["more than 3 connections at once are refused"]
            for _, writer in held:
                writer.close()
            await eventually(lambda: not harness.egress._connections)
            _, writer = await harness.tunnel()
            writer.close()

    on_loop(check())


def test_each_refusal_is_reported_once_and_only_so_many(
    on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "MAX_REPORTS", 2)

    async def check() -> None:
        async with proxy_for(_hang_up) as harness:
            for host in (b"a", b"a", b"A", b"b", b"c", b"d"):
                await harness.say(b"CONNECT %b.evil:443 HTTP/1.1\r\n\r\n" % host)
            assert harness.refused == [
                "a.evil:443 is not in this agent's network list",
                "b.evil:443 is not in this agent's network list",
                "further refused connections are not logged",
            ]

    on_loop(check())


def test_a_refusal_reaches_a_client_that_is_still_sending(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_hang_up) as harness:
            request = b"POST http://evil.test/ HTTP/1.1\r\nContent-Length: 900000\r\n\r\n"
            assert b" 403 " in await harness.say(request + bytes(900_000))

    on_loop(check())


async def test_without_patterns_there_are_no_ports() -> None:
    egress = Egress([], AllowList(), lambda _reason: None)
    assert (egress.ports, egress.hosts, egress.environment) == ({}, {}, {})
    await egress.close()


async def test_every_host_named_in_full_has_an_address_and_ports() -> None:
    egress = Egress(
        ["a.test", "b.test:8443", "A.test:22", "*.c.test:1", "192.0.2.1:2", "d.test:8462"],
        AllowList(),
        lambda _reason: None,
        reserved_ports=(8462,),
    )
    assert egress.hosts == {"a.test": "127.88.0.1", "b.test": "127.88.0.2", "d.test": "127.88.0.3"}
    assert sorted(egress.ports) == [22, 80, 443, PROXY_PORT, 8443]
    assert egress.environment["https_proxy"] == "http://{address}"


async def test_a_bad_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="not a host"):
        Egress(["a b"], AllowList(), lambda _reason: None)


@pytest.mark.parametrize("name", ["evil.test", None])
def test_a_tunnel_whose_tls_handshake_names_another_host_is_closed(
    on_loop: OnLoop, name: str | None
) -> None:
    async def check() -> None:
        received: list[bytes] = []

        async def collect(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            received.append(await reader.read())

        async with proxy_for(collect) as harness:
            for sent in (client_hello(name), split_records(client_hello(name), [10])):
                reader, writer = await harness.tunnel()
                writer.write(sent)
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()
            await eventually(lambda: len(received) == 2)

            assert received == [b"", b""]
            (line,) = harness.refused
            assert line.startswith(f"a connection to ok.test:{harness.server_port} was closed:")
            assert "(SNI)" in line

    on_loop(check())


def test_a_tunnel_whose_tls_handshake_names_its_host_is_relayed(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_echo_at_the_end) as harness:
            reader, writer = await harness.tunnel()
            sent = client_hello("ok.test") + b"\x17\x03\x03\x00\x01x"
            writer.write(sent)
            writer.write_eof()
            assert await reader.read() == b"received " + sent
            writer.close()
            assert harness.refused == []

    on_loop(check())


def test_a_direct_connection_is_checked_like_a_tunnel(on_loop: OnLoop) -> None:
    async def check() -> None:
        async with proxy_for(_echo_at_the_end) as harness:
            loop = asyncio.get_running_loop()
            address, port = harness.egress.hosts["ok.test"], harness.server_port
            factory = harness.egress.ports[port]
            listener = await loop.create_server(factory, address, port)
            try:
                reader, writer = await asyncio.open_connection(address, port)
                writer.write(client_hello("evil.test"))
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()
            finally:
                listener.close()
            (line,) = harness.refused
            assert "evil.test" in line

    on_loop(check())


def _plain(host: str) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode()


async def test_plain_http_reaches_only_the_host_of_its_tunnel() -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        received.append(await reader.read())

    async with proxy_for(answer) as harness:
        expected = b"GET / HTTP/1.1\r\nHost: ok.test:%d\r\nConnection: close\r\n\r\n"
        reader, writer = await harness.tunnel()
        writer.write(_plain("OK.test.") + _plain("evil.test"))
        assert await reader.readuntil(b"ok")
        writer.write(_plain("evil.test"))
        writer.transport.abort()
        await eventually(lambda: received == [expected % harness.server_port, b""])
        received.clear()

        reader, writer = await harness.tunnel()
        writer.write(_plain("evil.test"))
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        (line,) = harness.refused
        assert line.startswith(f"a connection to ok.test:{harness.server_port} was closed:")
        assert "another host: 'evil.test'" in line
        assert received == []


async def test_nothing_follows_the_one_request_that_the_proxy_forwards() -> None:
    received: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.write_eof()
        received.append(await reader.read())

    async with proxy_for(collect) as harness:
        for body in (b"", b"body"):
            head = harness.get(f"Content-Length: {len(body)}")
            answer = await harness.say(head + body + _plain("evil.test"))
            assert answer.endswith(b"\r\n\r\nok")
            await eventually(lambda: len(received) == 2)
            assert received[1] == body
            received.clear()

"""The tunnel of a git process: authentication, permitted hosts and the size limit."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from agentjobs_runtime.outbound.egress.tunnel import MAX_CONNECTIONS, Tunnel, open_tunnel
from agentjobs_runtime.outbound.guard.addresses import AllowList

HERE = AllowList.parse(["127.0.0.0/8"])


@asynccontextmanager
async def echo_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            received.append(chunk)
            writer.write(chunk)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], received


def resolve_to_loopback(host: str) -> Sequence[str]:
    return ["127.0.0.1"]


async def exchange(proxy: str, request: bytes, then: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)
    try:
        writer.write(request)
        if then:
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(then)
        writer.write_eof()
        return await read_to_end(reader)
    finally:
        writer.close()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Reads until the peer closes or resets the connection."""
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""


def connect(proxy: str, target: str, credential: str | None = None) -> bytes:
    parts = urlsplit(proxy)
    pair = f"{parts.username}:{parts.password}" if credential is None else credential
    encoded = base64.b64encode(pair.encode()).decode()
    return f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {encoded}\r\n\r\n".encode()


async def test_the_tunnel_reaches_its_host_and_counts_received_bytes() -> None:
    async with (
        echo_server() as (port, received),
        open_tunnel("git.test", port, HERE, max_bytes=100, lookup=resolve_to_loopback) as (
            tunnel,
            proxy,
        ),
    ):
        assert await exchange(proxy, connect(proxy, f"GIT.test:{port}"), b"hello") == b"hello"
        assert (b"".join(received), tunnel.received_bytes, tunnel.refusal) == (b"hello", 5, None)


async def test_an_unauthenticated_client_is_refused_without_effect_on_others() -> None:
    async with (
        echo_server() as (port, received),
        open_tunnel("git.test", port, HERE, max_bytes=100, lookup=resolve_to_loopback) as (
            tunnel,
            proxy,
        ),
    ):
        for credential in ("", "agentjobs:", "agentjobs:guess", "agentjobs"):
            answer = await exchange(proxy, connect(proxy, f"git.test:{port}", credential))
            assert answer.startswith(b"HTTP/1.1 407 ")
        bare = f"CONNECT git.test:{port} HTTP/1.1\r\n\r\n".encode()
        assert (await exchange(proxy, bare)).startswith(b"HTTP/1.1 407 ")
        assert await exchange(proxy, b"nonsense\r\n\r\n") == b""
        assert (received, tunnel.refusal) == ([], None)


@pytest.mark.parametrize("target", ["other.test:{port}", "git.test:1", "127.0.0.1:{port}"])
async def test_the_tunnel_reaches_no_other_host(target: str) -> None:
    async with (
        echo_server() as (port, received),
        open_tunnel("git.test", port, HERE, max_bytes=100, lookup=resolve_to_loopback) as (
            tunnel,
            proxy,
        ),
    ):
        answer = await exchange(proxy, connect(proxy, target.format(port=port)))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert received == []
        assert "which is not followed" in (tunnel.refusal or "")


async def test_a_plain_request_is_not_forwarded() -> None:
    async with (
        echo_server() as (port, received),
        open_tunnel("git.test", port, HERE, max_bytes=100, lookup=resolve_to_loopback) as (
            _,
            proxy,
        ),
    ):
        request = connect(proxy, "x").replace(b"CONNECT x", f"GET http://git.test:{port}/".encode())
        assert (await exchange(proxy, request)).startswith(b"HTTP/1.1 403 ")
        assert received == []


async def refusal_of(tunnel: Tunnel, proxy: str, port: int) -> str:
    assert (await exchange(proxy, connect(proxy, f"git.test:{port}"))).startswith(b"HTTP/1.1 403 ")
    return tunnel.refusal or ""


async def test_a_name_with_a_private_address_is_refused_with_a_reason() -> None:
    async with (
        echo_server() as (port, received),
        open_tunnel("git.test", port, AllowList(), max_bytes=9, lookup=resolve_to_loopback) as (
            tunnel,
            proxy,
        ),
    ):
        refusal = await refusal_of(tunnel, proxy, port)
        assert refusal == (
            "git.test: 127.0.0.1 is a loopback address; AGENTJOBS_EGRESS_ALLOW lists what may be"
            " reached. Ask the operator to allow it."
        )
        assert received == []


async def test_a_rebound_name_is_checked_at_every_connection() -> None:
    answers = iter((["127.0.0.1"], ["10.0.0.1"]))
    async with (
        echo_server() as (port, received),
        open_tunnel(
            "git.test", port, HERE, max_bytes=9, lookup=lambda _: next(answers)
        ) as (tunnel, proxy),
    ):  # fmt: skip
        assert await exchange(proxy, connect(proxy, f"git.test:{port}"), b"one") == b"one"
        assert "10.0.0.1 is a private address" in await refusal_of(tunnel, proxy, port)
        assert received == [b"one"]


async def test_bytes_beyond_the_limit_do_not_arrive() -> None:
    async with (
        echo_server() as (port, _),
        open_tunnel("git.test", port, HERE, max_bytes=2**20, lookup=resolve_to_loopback) as (
            tunnel,
            proxy,
        ),
    ):
        arrived = await exchange(proxy, connect(proxy, f"git.test:{port}"), bytes(3 * 2**20))
        assert len(arrived) <= 2**20
        assert tunnel.refusal.startswith("It is larger than the limit of 1 MiB, ")


async def test_closing_the_tunnel_aborts_its_connections() -> None:
    async with echo_server() as (port, _):
        async with open_tunnel("git.test", port, HERE, max_bytes=9, lookup=resolve_to_loopback) as (
            _,
            proxy,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)
            writer.write(connect(proxy, f"git.test:{port}"))
            await reader.readuntil(b"\r\n\r\n")
        assert await read_to_end(reader) == b""
        writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)


async def test_connections_are_limited() -> None:
    async with open_tunnel("git.test", 1, HERE, max_bytes=9, lookup=resolve_to_loopback) as (
        _,
        proxy,
    ):
        port = urlsplit(proxy).port
        many = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS + 1)
        ]
        assert await read_to_end(many[-1][0]) == b""
        for _, writer in many:
            writer.close()

"""A way out for one process of ours to one host: a proxy on loopback that knows who asks.

It dials the address it has judged, so a name that changes its mind gets nowhere. It passes no
request on but CONNECT, counts what comes back, and remembers why it refused.
"""

import asyncio
import base64
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator

from agentjobs.outbound.egress.http_head import END, HeadError, ProxyRequest, parse_request
from agentjobs.outbound.egress.relay import CHUNK_BYTES, ending, pump
from agentjobs.outbound.guard.addresses import AllowList, BlockedAddress
from agentjobs.outbound.guard.dial import Streams, Unreachable, dial
from agentjobs.outbound.guard.host_patterns import bracket_ipv6
from agentjobs.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

MOST_CONNECTIONS = 16
HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10
_LOOPBACK = "127.0.0.1"
_USER = "agentjobs"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_UNKNOWN = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=agentjobs\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class _Closed(Exception):
    """The way is closed, and why."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class Tunnel:
    """`refusal` says why the way was closed, once it was; `host` as `normalize_host` gives it.

    `may_pass`: nobody answered there, which may be otherwise another time.
    """

    def __init__(
        self, host: str, port: int, allowed: AllowList, *, most_bytes: int, lookup: Lookup
    ) -> None:
        self.received_bytes = 0
        self.refusal: str | None = None
        self.may_pass = False
        self._target = (host, port)
        self._allowed = allowed
        self._most_bytes = most_bytes
        self._resolve = new_job_resolver(lookup).resolve
        self._password = secrets.token_urlsafe(32)
        self._conversations: set[asyncio.Task[None]] = set()

    def proxy_url(self, port: int) -> str:
        return f"http://{_USER}:{self._password}@{_LOOPBACK}:{port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._conversations) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        conversation = asyncio.ensure_future(self._converse((reader, writer)))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)

    async def close(self) -> None:
        """Whatever is under way ends at once."""
        for conversation in self._conversations:
            conversation.cancel()
        if self._conversations:
            await asyncio.wait(self._conversations)

    async def _converse(self, client: Streams) -> None:
        async with ending(client[1]):
            with contextlib.suppress(OSError):
                request = await _request(client[0])
                if request is None:
                    return
                if not self._knows(request):
                    # Not remembered: a stranger on this machine must not spoil the way.
                    client[1].write(_UNKNOWN)
                    return
                await self._fulfil(request, client)

    def _knows(self, request: ProxyRequest) -> bool:
        pair = base64.b64encode(f"{_USER}:{self._password}".encode())
        given = {name.lower(): value for name, value in request.headers}
        shown = given.get("proxy-authorization", "").encode("latin-1")
        return hmac.compare_digest(shown, b"Basic " + pair)

    async def _fulfil(self, request: ProxyRequest, client: Streams) -> None:
        try:
            server = await self._reach(request)
        except _Closed as closed:
            self._remember(str(closed), may_pass=closed.may_pass)
            client[1].write(_REFUSED)
            return
        async with ending(server[1]):
            client[1].write(_ESTABLISHED)
            await self._relay(client, server)

    async def _reach(self, request: ProxyRequest) -> Streams:
        target = f"{bracket_ipv6(request.host)}:{request.port}"
        if not request.is_tunnel or (request.host, request.port) != self._target:
            raise _Closed(f"It sends us elsewhere, to {target}, which is not followed.")
        try:
            return await dial(*self._target, self._allowed, self._resolve)
        except BlockedAddress as error:
            raise _Closed(f"{error}. Ask the operator to allow it.") from None
        except Unreachable as error:
            reason = f"{target} could not be reached: {error}."
            raise _Closed(reason, may_pass=True) from None

    async def _relay(self, client: Streams, server: Streams) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_send(client[0], server[1]))
                both.create_task(self._receive(server[0], client[1]))
        except* OSError:
            pass  # Either side's trouble ends both; who asked will notice.

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            self.received_bytes += len(chunk)
            if self.received_bytes > self._most_bytes:
                mebibytes = self._most_bytes // 2**20
                self._remember(f"It is larger than the {mebibytes} MiB that may be fetched.")
                raise ConnectionAbortedError
            writer.write(chunk)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()

    def _remember(self, reason: str, *, may_pass: bool = False) -> None:
        if self.refusal is None:
            self.refusal, self.may_pass = reason, may_pass


@contextlib.asynccontextmanager
async def open_tunnel(
    host: str,
    port: int,
    allowed: AllowList,
    *,
    most_bytes: int,
    lookup: Lookup = system_lookup,
) -> AsyncIterator[tuple[Tunnel, str]]:
    """The tunnel and its address with the credential that it asks for."""
    tunnel = Tunnel(host, port, allowed, most_bytes=most_bytes, lookup=lookup)
    server = await asyncio.start_server(tunnel.accept, _LOOPBACK, 0, limit=HEAD_BYTES)
    try:
        yield tunnel, tunnel.proxy_url(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await tunnel.close()


async def _request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return parse_request(await reader.readuntil(END))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, HeadError):
        return None


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await pump(reader, writer)
    if not writer.is_closing():
        writer.write_eof()

"""An authenticated loopback proxy that lets one of our processes reach one host, such as git.

Dials exactly the address it has checked, so DNS rebinding has no effect. Only accepts CONNECT,
limits the bytes received, and remembers why it refused.
"""

import asyncio
import base64
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator

from agentjobs_runtime.outbound.egress.http_head import MAX_HEAD_BYTES, ProxyRequest
from agentjobs_runtime.outbound.egress.policy import ConnectionRefused
from agentjobs_runtime.outbound.egress.proxy import read_request
from agentjobs_runtime.outbound.egress.relay import CHUNK_BYTES, closing, copy_to_end
from agentjobs_runtime.outbound.guard.addresses import AllowList, BlockedAddress
from agentjobs_runtime.outbound.guard.dial import Streams, Unreachable, dial
from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6
from agentjobs_runtime.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

MAX_CONNECTIONS = 16
_LOOPBACK = "127.0.0.1"
_USER = "agentjobs"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_UNAUTHENTICATED = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=agentjobs\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class _Refused(Exception):
    def __init__(self, reason: str, *, is_temporary: bool = False) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary


class Tunnel:
    """`refusal` is the first reason for refusing a connection; `host` must be normalized.

    `is_temporary`: the host did not respond and may respond later.
    """

    def __init__(
        self, host: str, port: int, allowed: AllowList, *, max_bytes: int, lookup: Lookup
    ) -> None:
        self.received_bytes = 0
        self.refusal: str | None = None
        self.is_temporary = False
        self._target = (host, port)
        self._allowed = allowed
        self._max_bytes = max_bytes
        self._resolve = new_job_resolver(lookup).resolve
        self._password = secrets.token_urlsafe(32)
        self._connections: set[asyncio.Task[None]] = set()

    def proxy_url(self, port: int) -> str:
        return f"http://{_USER}:{self._password}@{_LOOPBACK}:{port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        connection = asyncio.ensure_future(self._serve((reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def close(self) -> None:
        """Aborts all connections."""
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, client: Streams) -> None:
        async with closing(client[1]):
            with contextlib.suppress(OSError, ConnectionRefused):
                request = await read_request(client[0])
                if request is None:
                    return
                if not self._is_authenticated(request):
                    # Not remembered: other users of this machine must not affect the caller.
                    client[1].write(_UNAUTHENTICATED)
                    return
                await self._open(request, client)

    def _is_authenticated(self, request: ProxyRequest) -> bool:
        credential = base64.b64encode(f"{_USER}:{self._password}".encode())
        headers = {name.lower(): value for name, value in request.headers}
        received = headers.get("proxy-authorization", "").encode("latin-1")
        return hmac.compare_digest(received, b"Basic " + credential)

    async def _open(self, request: ProxyRequest, client: Streams) -> None:
        try:
            server = await self._connect(request)
        except _Refused as refused:
            self._remember(str(refused), is_temporary=refused.is_temporary)
            client[1].write(_REFUSED)
            return
        async with closing(server[1]):
            client[1].write(_ESTABLISHED)
            await self._relay(client, server)

    async def _connect(self, request: ProxyRequest) -> Streams:
        target = f"{bracket_ipv6(request.host)}:{request.port}"
        if not request.is_tunnel or (request.host, request.port) != self._target:
            raise _Refused(f"It redirects to {target}, which is not followed.")
        try:
            return await dial(*self._target, self._allowed, self._resolve)
        except BlockedAddress as error:
            raise _Refused(f"{error}. Ask the operator to allow it.") from None
        except Unreachable as error:
            reason = f"{target} could not be reached: {error}."
            raise _Refused(reason, is_temporary=True) from None

    async def _relay(self, client: Streams, server: Streams) -> None:
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(copy_to_end(client[0], server[1]))
                directions.create_task(self._receive(server[0], client[1]))
        except* OSError:
            pass  # A failure of either side ends both, and the client notices.

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            self.received_bytes += len(chunk)
            if self.received_bytes > self._max_bytes:
                mebibytes = self._max_bytes // 2**20
                self._remember(
                    f"It is larger than the limit of {mebibytes} MiB, which the organization's disk"
                    " quota (limit_organization_disk_mib) may lower."
                )
                raise ConnectionAbortedError
            writer.write(chunk)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()

    def _remember(self, reason: str, *, is_temporary: bool = False) -> None:
        if self.refusal is None:
            self.refusal, self.is_temporary = reason, is_temporary


@contextlib.asynccontextmanager
async def open_tunnel(
    host: str,
    port: int,
    allowed: AllowList,
    *,
    max_bytes: int,
    lookup: Lookup = system_lookup,
) -> AsyncIterator[tuple[Tunnel, str]]:
    """The tunnel and its proxy URL, with the credential."""
    tunnel = Tunnel(host, port, allowed, max_bytes=max_bytes, lookup=lookup)
    server = await asyncio.start_server(tunnel.accept, _LOOPBACK, 0, limit=MAX_HEAD_BYTES)
    try:
        yield tunnel, tunnel.proxy_url(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await tunnel.close()

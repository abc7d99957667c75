"""Network access of one job's sandbox: ports that lead to the hosts its agent may reach.

Clients that support it use the HTTP proxy. For all others, each host named in full has a loopback
address inside the sandbox, and the address that a client connects to identifies the host.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence

from agentjobs_runtime.outbound.egress.http_head import MAX_HEAD_BYTES
from agentjobs_runtime.outbound.egress.policy import ConnectionRefused, EgressPolicy
from agentjobs_runtime.outbound.egress.proxy import serve_proxy
from agentjobs_runtime.outbound.egress.relay import closing
from agentjobs_runtime.outbound.egress.server_name import relay_checked
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.dial import Streams
from agentjobs_runtime.outbound.guard.host_patterns import HostPattern, parse_pattern
from agentjobs_runtime.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

PROXY_PORT = 3128
MAX_CONNECTIONS = 256
# Each port is a listening socket per job; further ports are reached through the proxy.
MAX_PORTS = 64
_NOT_PROXIED = "localhost,127.0.0.1,::1"

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Egress:
    """Serves one job; close it when its sandbox is gone. Raises ValueError for an invalid pattern.

    `patterns` is None for any host: then only clients that support the proxy reach it.
    """

    def __init__(
        self,
        patterns: Sequence[str] | None,
        allowed: AllowList,
        on_refused: Callable[[str], None],
        *,
        reserved_ports: Collection[int] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        parsed = [parse_pattern(text) for text in patterns or ()]
        named = [pattern for pattern in parsed if not (pattern.subdomains or pattern.is_address)]
        self.hosts: Mapping[str, str] = _loopback_addresses(named)
        self.ports: Mapping[int, ProtocolFactory] = {
            port: functools.partial(self._new_connection, port)
            for port in _select_ports(named, reserved_ports)
            if parsed or patterns is None
        }
        self._names = {address: name for name, address in self.hosts.items()}
        rules = None if patterns is None else parsed
        self._policy = EgressPolicy(rules, allowed, on_refused, new_job_resolver(lookup).resolve)
        self._connections: set[asyncio.Task[None]] = set()
        self._is_open = True

    @property
    def environment(self) -> Mapping[str, str]:
        """Proxy settings; `{address}` is replaced by the address of PROXY_PORT in the sandbox."""
        if not self.ports:
            return {}
        proxy = "http://{address}"
        return {
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), _NOT_PROXIED),
            "NODE_USE_ENV_PROXY": "1",
        }

    async def close(self) -> None:
        """Aborts all connections."""
        self._is_open = False
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _new_connection(self, port: int) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(MAX_HEAD_BYTES, asyncio.get_running_loop())
        return asyncio.StreamReaderProtocol(reader, functools.partial(self._accept, port))

    def _accept(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not self._is_open:
            writer.transport.abort()
        elif len(self._connections) >= MAX_CONNECTIONS:
            self._policy.report("", f"more than {MAX_CONNECTIONS} connections at once are refused")
            writer.transport.abort()
        else:
            connection = asyncio.ensure_future(self._serve(port, (reader, writer)))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

    async def _serve(self, port: int, client: Streams) -> None:
        name = self._names.get(client[1].get_extra_info("sockname")[0])
        async with closing(client[1]):
            with contextlib.suppress(OSError):
                if name is not None:
                    await self._forward(name, port, client)
                elif port == PROXY_PORT:
                    await serve_proxy(client, self._policy)

    async def _forward(self, name: str, port: int, client: Streams) -> None:
        # The protocol is unknown, so the client cannot be told why; the job's log has the reason.
        with contextlib.suppress(ConnectionRefused):
            server = await self._policy.connect(name, port)
            async with closing(server[1]):
                await relay_checked(client, server, self._policy, (name, port))


def _loopback_addresses(named: Sequence[HostPattern]) -> dict[str, str]:
    names = dict.fromkeys(pattern.host for pattern in named)
    return {name: f"127.88.{n >> 8}.{n & 255}" for n, name in enumerate(names, start=1)}


def _select_ports(named: Sequence[HostPattern], reserved: Collection[int]) -> list[int]:
    ports = dict.fromkeys(port for pattern in named for port in pattern.ports)
    usable = [port for port in ports if port != PROXY_PORT and port not in reserved]
    return [PROXY_PORT, *usable[:MAX_PORTS]]

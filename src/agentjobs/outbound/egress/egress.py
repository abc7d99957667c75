"""The way out of one job's sandbox: doors to the hosts its agent may reach, and nowhere else.

An HTTP proxy for clients that can use one. For the others every host named in full has a loopback
address of its own inside, and the address a connection came to tells the host it is meant for.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence

from agentjobs.outbound.egress.policy import Gate, Refusal
from agentjobs.outbound.egress.proxy import HEAD_BYTES, serve_proxy
from agentjobs.outbound.egress.relay import ending, relay
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.outbound.guard.dial import Streams
from agentjobs.outbound.guard.host_patterns import Pattern, parse_pattern
from agentjobs.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

PROXY_PORT = 3128
MOST_CONNECTIONS = 256
# Each is a listening socket of every job; hosts on further ports are reached by the proxy.
MOST_PORTS = 64
_NOT_PROXIED = "localhost,127.0.0.1,::1"

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Egress:
    """One job's; `close` it when its sandbox is gone. Raises ValueError for a pattern."""

    def __init__(
        self,
        patterns: Sequence[str],
        allowed: AllowList,
        on_refused: Callable[[str], None],
        *,
        reserved_ports: Collection[int] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        parsed = [parse_pattern(text) for text in patterns]
        named = [pattern for pattern in parsed if not (pattern.subdomains or pattern.is_address)]
        self.hosts: Mapping[str, str] = _loopback_addresses(named)
        self.doors: Mapping[int, ProtocolFactory] = {
            port: functools.partial(self._new_connection, port)
            for port in _ports(parsed, named, reserved_ports)
        }
        self._names = {address: name for name, address in self.hosts.items()}
        self._gate = Gate(parsed, allowed, on_refused, new_job_resolver(lookup).resolve)
        self._conversations: set[asyncio.Task[None]] = set()
        self._is_open = True

    @property
    def environment(self) -> Mapping[str, str]:
        """For the door at PROXY_PORT; `{address}` stands for where that is found inside."""
        if not self.doors:
            return {}
        proxy = "http://{address}"
        return {
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), _NOT_PROXIED),
            "NODE_USE_ENV_PROXY": "1",
        }

    async def close(self) -> None:
        """Whatever is under way ends at once."""
        self._is_open = False
        for conversation in self._conversations:
            conversation.cancel()
        if self._conversations:
            await asyncio.wait(self._conversations)

    def _new_connection(self, port: int) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(HEAD_BYTES, asyncio.get_running_loop())
        return asyncio.StreamReaderProtocol(reader, functools.partial(self._accept, port))

    def _accept(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not self._is_open:
            writer.transport.abort()
        elif len(self._conversations) >= MOST_CONNECTIONS:
            self._gate.note("", f"more than {MOST_CONNECTIONS} connections at once are refused")
            writer.transport.abort()
        else:
            conversation = asyncio.ensure_future(self._converse(port, (reader, writer)))
            self._conversations.add(conversation)
            conversation.add_done_callback(self._conversations.discard)

    async def _converse(self, port: int, client: Streams) -> None:
        name = self._names.get(client[1].get_extra_info("sockname")[0])
        async with ending(client[1]):
            with contextlib.suppress(OSError):
                if name is not None:
                    await self._pass_through(name, port, client)
                elif port == PROXY_PORT:
                    await serve_proxy(client, self._gate)

    async def _pass_through(self, name: str, port: int, client: Streams) -> None:
        # There is no language here to say a refusal in: the job's log has it.
        with contextlib.suppress(Refusal):
            server = await self._gate.reach(name, port)
            async with ending(server[1]):
                await relay(client, server)


def _loopback_addresses(named: Sequence[Pattern]) -> dict[str, str]:
    names = dict.fromkeys(pattern.host for pattern in named)
    return {name: f"127.88.{n >> 8}.{n & 255}" for n, name in enumerate(names, start=1)}


def _ports(
    parsed: Sequence[Pattern], named: Sequence[Pattern], reserved: Collection[int]
) -> list[int]:
    if not parsed:
        return []
    ports = dict.fromkeys(port for pattern in named for port in pattern.ports)
    usable = [port for port in ports if port != PROXY_PORT and port not in reserved]
    return [PROXY_PORT, *usable[:MOST_PORTS]]

"""What a sandbox can reach: the allow-list proxy, and private hosts with brokered credentials."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_worker.environments.broker import Broker
from agentjobs_worker.sandbox.protocol import SandboxPort

# One for each private host.
BROKER_PORTS = range(3_200, 3_232)


@dataclass(frozen=True, slots=True)
class Network:
    """`hosts` maps names to the loopback addresses at which `ports` answer for them."""

    ports: tuple[SandboxPort, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def open_egress(
    patterns: Sequence[str] | None,
    allowed: AllowList,
    on_note: Callable[[str], None],
    reserved_ports: Collection[int] = (),
    lookup: Lookup = system_lookup,
) -> AsyncIterator[Network]:
    """Close it when the sandbox is gone. None: all hosts whose addresses are permitted."""
    if patterns is not None and not patterns:
        yield Network()
        return
    egress = Egress(patterns, allowed, on_note, reserved_ports=reserved_ports, lookup=lookup)
    ports = (
        SandboxPort(
            number=port,
            protocol=protocol,
            environment=egress.environment if port == PROXY_PORT else {},
        )
        for port, protocol in egress.ports.items()
    )
    try:
        yield Network(tuple(ports), egress.hosts)
    finally:
        await egress.close()


@asynccontextmanager
async def open_broker(
    brokered: Sequence[BrokeredHost],
    allowed: AllowList,
    ca_file: str,
    on_note: Callable[[str], None],
) -> AsyncIterator[tuple[SandboxPort, ...]]:
    if not brokered:
        yield ()
        return
    hosts = brokered[: len(BROKER_PORTS)]
    # Connections of its own: a host that does not read the body of a request might take it as the
    # beginning of the next one, which must not be one of another organization.
    async with new_session(allowed, ca_file) as session:
        broker = Broker(hosts, session=session, on_note=on_note, first_port=BROKER_PORTS.start)
        try:
            yield broker.ports
        finally:
            await broker.close()


@asynccontextmanager
async def open_setup_network(
    access: SetupAccess,
    allowed: AllowList,
    ca_file: str,
    on_note: Callable[[str], None],
) -> AsyncIterator[Network]:
    async with (
        open_broker(access.brokered, allowed, ca_file, on_note) as broker_ports,
        open_egress(access.network, allowed, on_note, BROKER_PORTS) as network,
    ):
        yield Network((*broker_ports, *network.ports), network.hosts)

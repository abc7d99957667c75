"""A channel as the transport of protocols, which behaves as one of a socket."""

import asyncio

import pytest

from agentjobs.sandbox.kubernetes.channel_transport import ChannelTransport
from agentjobs.sandbox.kubernetes.channels import ChannelClosed
from tests.support.channel_peers import ConnectedPair
from tests.unit.sandbox.kubernetes.test_channels import read_all, settle

ADDRESS = ("127.0.0.1", 3128)


async def test_a_client_gets_everything_from_a_server_that_aborts_after_its_close() -> None:
    client, channel = await ConnectedPair().open()
    lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"response" * 10_000)
            transport.close()

        def connection_lost(self, error: Exception | None) -> None:
            transport.abort()
            lost.set_result(error)

    transport = ChannelTransport(channel, Server(), ADDRESS)
    transport.start()
    assert await lost is None
    await settle()
    assert await read_all(client) == b"response" * 10_000
    client.end()


async def test_an_abort_resets_the_connection() -> None:
    client, channel = await ConnectedPair().open()
    ends: list[Exception | None] = []

    class Server(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            ends.append(error)

    transport = ChannelTransport(channel, Server(), ADDRESS)
    transport.start()
    transport.abort()
    await settle()
    assert len(ends) == 1
    assert transport.is_closing()
    with pytest.raises(ChannelClosed):
        await client.read()

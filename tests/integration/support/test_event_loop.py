"""What the tests' own event loop sees to."""

import asyncio
import gc
import socket
import warnings

from tests.support.event_loop import TidyLoop


def test_a_connection_accepted_at_the_last_moment_is_closed_with_its_loop() -> None:
    async def accept_and_end(client: socket.socket) -> None:
        accepted = asyncio.Event()

        async def hold(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            accepted.set()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, server.sockets[0].getsockname())
        await accepted.wait()
        server.close()

    with warnings.catch_warnings(record=True) as told, socket.socket() as client:
        warnings.simplefilter("always")
        with asyncio.Runner() as runner:
            runner.run(accept_and_end(client))
            assert isinstance(runner.get_loop(), TidyLoop)
        gc.collect()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []

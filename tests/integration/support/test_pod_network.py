"""How the in-memory cluster connects its pods."""

import asyncio
import os
import socket

import pytest

from tests.support.kubernetes.pod_network import join


async def test_a_broken_connection_leaves_nothing_for_the_next_one_with_its_number() -> None:
    loop = asyncio.get_running_loop()
    worker, outside = non_blocking_pair()
    inside, supervisor = non_blocking_pair()
    number = inside.fileno()
    with supervisor:
        with outside, inside:
            joining = asyncio.ensure_future(join(outside, inside))
            await loop.sock_sendall(supervisor, b"never read")
            await loop.sock_recv(worker, 1)
            worker.close()
            with pytest.raises(ConnectionResetError):
                await joining
        other, sender = non_blocking_pair()
        with other, sender, socket.socket(fileno=os.dup2(other.fileno(), number)) as reused:
            receiving = asyncio.ensure_future(loop.sock_recv(reused, 100))
            await asyncio.sleep(0)
            await loop.sock_sendall(sender, b"seen")
            async with asyncio.timeout(30):
                assert await receiving == b"seen"


def non_blocking_pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return pair

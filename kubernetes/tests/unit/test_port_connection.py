"""A connection to a port behaves as the transport of a socket does."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from agentjobs_kubernetes.frames import (
    END_OF_DATA,
    FrameDecoder,
    FrameType,
    encode_data,
    encode_frame,
)
from agentjobs_kubernetes.port_connection import PortConnection
from tests.support.sandbox import eventually

ADDRESS = ("127.88.0.1", 443)


class Recorder(asyncio.Protocol):
    """`keeps_open`: it goes on writing after the client's end."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.data = b""
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._keeps_open = keeps_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, PortConnection)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Agent:
    """The other end, without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._decoder = FrameDecoder()

    async def write(self, data: bytes) -> None:
        for frame in encode_data(data):
            await asyncio.get_running_loop().sock_sendall(self.socket, frame)

    async def end(self) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, END_OF_DATA)

    async def read_all(self) -> bytes:
        received = bytearray()
        while data := await asyncio.get_running_loop().sock_recv(self.socket, 65_536):
            for frame in self._decoder.feed(data):
                if not frame.payload:
                    return bytes(received)
                received += frame.payload
        raise ConnectionResetError


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Recorder, Agent]]:
    recorder = Recorder()
    async with connected(recorder) as agent:
        yield recorder, agent


@contextlib.asynccontextmanager
async def connected(recorder: Recorder) -> AsyncIterator[Agent]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    port = PortConnection(recorder, ADDRESS)
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: port, sock=ours)
    port.start()
    with theirs:
        yield Agent(theirs)
    transport.abort()
    await port.closed


async def test_data_and_ends_pass_in_both_directions() -> None:
    recorder = Recorder(keeps_open=True)
    async with connected(recorder) as agent:
        await agent.write(b"question")
        await agent.end()
        await eventually(lambda: recorder.events == ["eof"])
        assert recorder.data == b"question"
        recorder.transport.write(b"answer")
        recorder.transport.write_eof()
        assert await agent.read_all() == b"answer"
        recorder.transport.close()
        assert await recorder.lost is None
        assert recorder.transport.get_extra_info("sockname") == ADDRESS


async def test_the_end_of_the_client_closes_unless_the_protocol_keeps_it_open(
    pair: tuple[Recorder, Agent],
) -> None:
    recorder, agent = pair
    await agent.end()
    assert await agent.read_all() == b""
    assert await recorder.lost is None


@pytest.mark.parametrize("aborts", [False, True])
async def test_everything_written_before_a_close_arrives(
    pair: tuple[Recorder, Agent], aborts: bool
) -> None:
    recorder, agent = pair
    data = bytes(range(256)) * 12_000
    recorder.transport.write(data)
    recorder.transport.close()
    # The client has not seen the end yet.
    await agent.write(b"late")
    reading = asyncio.ensure_future(agent.read_all())
    assert await recorder.lost is None
    if aborts:
        # As servers do after the end.
        recorder.transport.abort()
    assert await reading == data
    assert recorder.data == b""


async def test_an_abort_resets_the_client(pair: tuple[Recorder, Agent]) -> None:
    recorder, agent = pair
    recorder.transport.abort()
    with pytest.raises(ConnectionResetError):
        await agent.read_all()
    assert await recorder.lost is None


async def test_a_reset_of_the_client_reaches_the_protocol(pair: tuple[Recorder, Agent]) -> None:
    recorder, agent = pair
    agent.socket.close()
    assert isinstance(await recorder.lost, ConnectionResetError)
    recorder.transport.write(b"late")
    recorder.transport.close()
    recorder.transport.abort()


async def test_a_client_that_does_not_read_pauses_the_protocol(
    pair: tuple[Recorder, Agent],
) -> None:
    recorder, agent = pair
    recorder.transport.write(bytes(3_000_000))
    assert recorder.events == ["pause"]
    recorder.transport.write_eof()
    assert len(await agent.read_all()) == 3_000_000
    await eventually(lambda: recorder.events == ["pause", "resume"])
    assert recorder.transport.get_write_buffer_size() == 0


async def test_a_protocol_that_does_not_read_pauses_the_client(
    pair: tuple[Recorder, Agent],
) -> None:
    recorder, agent = pair
    recorder.transport.pause_reading()
    writing = asyncio.ensure_future(agent.write(bytes(3_000_000)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    assert recorder.data == b""
    recorder.transport.resume_reading()
    await writing
    await eventually(lambda: len(recorder.data) == 3_000_000)


async def test_what_is_no_data_ends_the_connection(pair: tuple[Recorder, Agent]) -> None:
    recorder, agent = pair
    message = encode_frame(FrameType.MESSAGE, b"{}")
    await asyncio.get_running_loop().sock_sendall(agent.socket, message)
    assert isinstance(await recorder.lost, ConnectionResetError)

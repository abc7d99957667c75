"""A channel behaves as the transport of a socket does."""

import asyncio

import pytest

from agentjobs_kubernetes.channel_transport import ChannelTransport, serve_ports
from agentjobs_kubernetes.channels import WINDOW_BYTES, Channel, ChannelClosed
from agentjobs_worker.sandbox.protocol import SandboxPort
from tests.support.channel_peers import ConnectedPair
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
        assert isinstance(transport, ChannelTransport)
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


async def connect(recorder: Recorder) -> Channel:
    """The agent's end."""
    here, there = await ConnectedPair().open()
    ChannelTransport(here, recorder, ADDRESS).start()
    return there


async def read_all(channel: Channel) -> bytes:
    received = bytearray()
    while chunk := await channel.read():
        received += chunk
    return bytes(received)


async def test_data_and_ends_pass_in_both_directions() -> None:
    recorder = Recorder(keeps_open=True)
    agent = await connect(recorder)
    await agent.write(b"question")
    agent.end()
    await eventually(lambda: recorder.events == ["eof"])
    assert recorder.data == b"question"
    recorder.transport.write(b"answer")
    recorder.transport.write_eof()
    assert await read_all(agent) == b"answer"
    recorder.transport.close()
    assert await recorder.lost is None
    assert recorder.transport.get_extra_info("sockname") == ADDRESS


async def test_the_end_of_the_client_closes_unless_the_protocol_keeps_it_open() -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    agent.end()
    assert await read_all(agent) == b""
    assert await recorder.lost is None


@pytest.mark.parametrize("aborts", [False, True])
async def test_everything_written_before_a_close_arrives(aborts: bool) -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    data = bytes(range(256)) * (3 * WINDOW_BYTES // 256)
    recorder.transport.write(data)
    recorder.transport.close()
    reading = asyncio.ensure_future(read_all(agent))
    assert await recorder.lost is None
    if aborts:
        # As servers do after the end.
        recorder.transport.abort()
    assert await reading == data


async def test_an_abort_resets_the_client() -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    recorder.transport.abort()
    with pytest.raises(ChannelClosed):
        await agent.read()
    assert await recorder.lost is None


async def test_a_reset_of_the_client_reaches_the_protocol() -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    agent.close()
    assert isinstance(await recorder.lost, ConnectionResetError)
    recorder.transport.write(b"late")
    recorder.transport.close()
    recorder.transport.abort()


async def test_a_client_that_does_not_read_pauses_the_protocol() -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    recorder.transport.write(bytes(2 * WINDOW_BYTES))
    assert recorder.events == ["pause"]
    read = 0
    while read < 2 * WINDOW_BYTES:
        read += len(await agent.read())
    await eventually(lambda: recorder.events == ["pause", "resume"])
    assert recorder.transport.get_write_buffer_size() == 0


async def test_a_protocol_that_does_not_read_pauses_the_client() -> None:
    recorder = Recorder()
    agent = await connect(recorder)
    recorder.transport.pause_reading()
    writing = asyncio.ensure_future(agent.write(bytes(3 * WINDOW_BYTES)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    assert recorder.data == b""
    recorder.transport.resume_reading()
    await writing
    await eventually(lambda: len(recorder.data) == 3 * WINDOW_BYTES)


async def test_a_connection_to_a_port_that_nobody_serves_is_reset() -> None:
    served: list[Recorder] = []

    def protocol() -> Recorder:
        served.append(Recorder())
        return served[-1]

    serve = serve_ports([SandboxPort(number=443, protocol=protocol)])
    pair = ConnectedPair()
    for number in (443, 80):
        here, there = await pair.open()
        serve(here, ("127.0.0.1", number))
    with pytest.raises(ChannelClosed):
        await there.read()
    assert len(served) == 1

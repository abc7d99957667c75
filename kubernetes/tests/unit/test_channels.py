"""Streams over one connection: order, ends, flow control, and what a hostile peer cannot do."""

import asyncio

import pytest

from agentjobs_kubernetes.channels import (
    CREDIT_PORTION_BYTES,
    WINDOW_BYTES,
    Channel,
    ChannelClosed,
    ConnectionLost,
)
from agentjobs_kubernetes.frames import MAX_DATA_BYTES, FrameType
from agentjobs_kubernetes.multiplexer import MAX_PEER_CHANNELS
from tests.support.channel_peers import ConnectedPair


async def read_all(channel: Channel) -> bytes:
    received = bytearray()
    while chunk := await channel.read():
        received += chunk
    return bytes(received)


async def settle() -> None:
    """Let everything that is on its way arrive."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize("piece_bytes", [7_919, 1_000_000])
async def test_streams_in_both_directions_arrive_complete_and_in_order(piece_bytes: int) -> None:
    pair = ConnectedPair(piece_bytes)
    here, there = await pair.open()
    data = bytes(range(256)) * 20_000

    async def send(channel: Channel) -> None:
        await channel.write(data)
        channel.end()

    _, _, first, second = await asyncio.gather(
        send(here), send(there), read_all(here), read_all(there)
    )
    assert (first, second) == (data, data)


async def test_a_stream_without_data_has_an_end() -> None:
    here, there = await ConnectedPair().open()
    here.end()
    assert await there.read() == b""
    there.end()
    assert await here.read() == b""


async def test_reads_are_as_small_as_their_caller_wants() -> None:
    here, there = await ConnectedPair().open()
    await here.write(b"abcdef")
    assert [await there.read(4), await there.read(4)] == [b"abcd", b"ef"]


async def test_a_writer_waits_for_the_reader_after_one_window() -> None:
    pair = ConnectedPair()
    here, there = await pair.open()
    writing = asyncio.ensure_future(here.write(bytes(3 * WINDOW_BYTES)))
    await settle()
    assert not writing.done()
    assert WINDOW_BYTES <= pair.to_supervisor.sent_bytes < WINDOW_BYTES + 2_000
    read = 0
    while read < CREDIT_PORTION_BYTES:
        read += len(await there.read())
    await settle()
    assert pair.to_supervisor.sent_bytes > WINDOW_BYTES + CREDIT_PORTION_BYTES
    while read < 3 * WINDOW_BYTES:
        read += len(await there.read())
    await writing


async def test_a_full_channel_does_not_delay_another() -> None:
    pair = ConnectedPair()
    full, _ = await pair.open()
    writing = asyncio.ensure_future(full.write(bytes(2 * WINDOW_BYTES)))
    other, there = await pair.open()
    await other.write(b"quick")
    assert await there.read() == b"quick"
    full.close()
    with pytest.raises(ChannelClosed):
        await writing


async def test_a_closed_channel_ends_the_reads_and_writes_of_its_peer_only() -> None:
    pair = ConnectedPair()
    here, there = await pair.open()
    other, other_there = await pair.open()
    reading = asyncio.ensure_future(here.read())
    there.close()
    with pytest.raises(ChannelClosed):
        await reading
    with pytest.raises(ChannelClosed):
        await here.write(b"x")
    await other.write(b"alive")
    assert await other_there.read() == b"alive"


async def test_a_lost_connection_ends_every_channel_and_tells_the_handler() -> None:
    pair = ConnectedPair()
    here, there = await pair.open()
    reading = asyncio.ensure_future(here.read())
    writing = asyncio.ensure_future(there.write(bytes(10 * WINDOW_BYTES)))
    await settle()
    pair.worker.abort("the node is gone")
    with pytest.raises(ConnectionLost, match="the node is gone"):
        await asyncio.wait_for(here.read(), 10)
    with pytest.raises(ConnectionLost):
        await writing
    await asyncio.wait({reading})
    assert pair.worker_handler.lost is not None
    assert pair.supervisor_handler.lost is not None
    with pytest.raises(ConnectionLost):
        pair.worker.open({"kind": "connect", "port": 1})


async def test_messages_output_and_acknowledgements_reach_the_handler() -> None:
    pair = ConnectedPair()
    pair.worker.send_message({"type": "ping"})
    pair.worker.send_ack(2**40)
    pair.supervisor.send_output(2**40, b"line")
    await settle()
    assert pair.supervisor_handler.messages == [b'{"type":"ping"}']
    assert pair.supervisor_handler.acks == [2**40]
    assert pair.worker_handler.output == [(2**40, b"line")]


async def test_late_frames_of_an_unknown_channel_are_ignored() -> None:
    pair = ConnectedPair()
    here, there = await pair.open()
    here.close()
    await there.write(b"late")
    there.end()
    await settle()
    assert pair.worker_handler.lost is None


async def test_a_peer_that_ignores_its_credit_is_cut_off() -> None:
    pair = ConnectedPair()
    _, there = await pair.open()
    for _ in range(WINDOW_BYTES // MAX_DATA_BYTES + 1):
        pair.supervisor.send(FrameType.DATA, there.number, bytes(MAX_DATA_BYTES))
    await settle()
    assert "credit" in str(pair.worker_handler.lost)


async def test_a_peer_cannot_open_channels_of_ours_or_the_same_one_twice() -> None:
    for number in (2, 3):
        pair = ConnectedPair()
        for _ in range(2):
            pair.supervisor.send(FrameType.OPEN, number, b"{}")
        await settle()
        assert "is not free" in str(pair.worker_handler.lost)


async def test_more_channels_than_allowed_are_closed_at_once() -> None:
    pair = ConnectedPair()
    channels = [
        pair.supervisor.open({"kind": "port", "number": 1}) for _ in range(MAX_PEER_CHANNELS + 1)
    ]
    with pytest.raises(ChannelClosed):
        await channels[-1].read()
    assert pair.worker_handler.opened.qsize() == MAX_PEER_CHANNELS
    accepted, _ = await pair.worker_handler.opened.get()
    await accepted.write(b"served")
    assert await channels[0].read() == b"served"


async def test_unread_data_of_all_channels_together_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentjobs_kubernetes.multiplexer.MAX_UNREAD_BYTES", 2 * WINDOW_BYTES)
    pair = ConnectedPair()
    ends = [await pair.open() for _ in range(3)]
    for _, there in ends[:2]:
        await there.write(bytes(WINDOW_BYTES))
    await settle()
    assert pair.worker.unread_bytes == 2 * WINDOW_BYTES
    await ends[2][1].write(b"one more")
    with pytest.raises(ChannelClosed):
        await ends[2][0].read()
    ends[0][0].close()
    assert pair.worker.unread_bytes == WINDOW_BYTES

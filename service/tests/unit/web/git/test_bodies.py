"""Bodies of git requests: decompressed in chunks, bounded, and rejected when damaged."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Iterable

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from agentjobs.web.git.body import Body, gunzip, limit_size, receive_pieces
from agentjobs_runtime.problems import Problem


async def pieces_of(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
async def test_a_compressed_body_is_decompressed_for_any_chunk_size(size: int) -> None:
    text = b"want 0123456789\n" * 5_000
    assert await joined(gunzip(pieces_of(cut(gzip.compress(text), size)))) == text


@pytest.mark.parametrize(
    "body",
    [
        b"not gzip at all",
        gzip.compress(b"want " * 100)[:-4],
        gzip.compress(b"want " * 100) + b"more",
        gzip.compress(b"want " * 100)[:20] + b"\xff" * 40,
        b"",
    ],
    ids=["no gzip", "cut short", "more behind", "broken inside", "nothing"],
)
async def test_a_damaged_compressed_body_is_rejected(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        await joined(gunzip(pieces_of(cut(body, 10))))
    assert refused.value.code == "bad_request"


async def test_a_gzip_bomb_is_stopped_at_the_limit_without_buffering_it() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, 9)
    tracemalloc.start()
    try:
        with pytest.raises(Problem) as refused:
            async for _ in limit_size(1_000_000, gunzip(pieces_of(cut(bomb, 65_536)))):
                pass
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert refused.value.code == "payload_too_large"


async def test_other_tasks_run_while_a_gzip_bomb_is_decompressed() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000, 9)
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other_work())
    async for _ in gunzip(pieces_of([bomb])):
        pass
    beside.cancel()
    assert turns > 50


async def test_a_drained_body_is_not_decompressed() -> None:
    packed = gzip.compress(b"\0" * 50_000_000, 9)
    received = pieces_of(cut(packed, 1_000))
    body = Body(gunzip(received), received)
    first = await anext(body.pieces)
    rest = await joined(body.received)
    assert len(first) <= 64 * 1024
    assert rest == packed[1_000:]


async def test_bytes_that_were_already_read_are_replayed_first() -> None:
    received = pieces_of([b"one", b"two"])
    body = Body(received, received)
    assert await joined(body.after(await anext(body.pieces)).pieces) == b"onetwo"


async def test_a_client_that_disconnects_during_the_body_is_detected() -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    with pytest.raises(ClientDisconnect):
        await joined(receive_pieces(receive))

"""Work done by several processes at once, each a copy of this one, none of them trusted to live.

Knows processes and pipes; refuses to know what the work is.
"""

import contextlib
import mmap
import os
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, NoReturn

import msgspec

from agentjobs.inventory.index.lifeline import end_with_parent
from agentjobs.inventory.index.partial_index import Portion

_COUNT = struct.Struct("=q")
_PIECE_BYTES = 1024 * 1024
_PROGRESS_SECONDS = 0.2
_OUT_OF_MEMORY = 3
_COMPLETE = b"complete"

Wait = Callable[[], bytes]
Work = Callable[[int, Callable[[int], None], Wait], Iterator[Portion]]


class _Share(NamedTuple):
    pid: int
    stream: int


@contextlib.contextmanager
def in_shares(
    work: Work, shares: int, progress: Callable[[int], None], meanwhile: Callable[[], bytes]
) -> Iterator[list[Portion]]:
    """What `work` yields for each share; what it does afterwards is done when the block is left.

    `work` gets its number, a function to say how far it is, and one to wait for what `meanwhile`
    found out in this process.
    """
    if shares == 1:
        alone = work(0, progress, meanwhile)
        yield [next(alone)]
        yielded = list(alone)
        assert not yielded
        return
    counts = mmap.mmap(-1, shares * _COUNT.size)
    notice, end = _Notice(), _Notice()
    started = [_start(work, number, counts, notice, end) for number in range(shares)]
    notice.give(meanwhile(), shares)
    portions = _received(started, lambda: progress(_sum(counts)))
    yield portions
    end.give(b"over", shares)
    for share in started:
        os.waitpid(share.pid, 0)


class _Notice:
    """What every share is told while it works: kept in memory, and a byte for each says when.

    A share that waits in vain ends with us.
    """

    def __init__(self) -> None:
        self._place = os.memfd_create("notice")
        self._waiting, self._ready = os.pipe()

    def give(self, data: bytes, shares: int) -> None:
        with os.fdopen(self._place, "wb") as place:
            place.write(data)
        os.write(self._ready, bytes(shares))

    def wait(self) -> bytes:
        os.read(self._waiting, 1)
        # Not by reading on: all shares have one position in it together.
        with mmap.mmap(self._place, 0, access=mmap.ACCESS_READ) as place:
            return place[:]


def _start(work: Work, number: int, counts: mmap.mmap, notice: _Notice, end: _Notice) -> _Share:
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Share(pid, reading)
    exit_code = 1
    try:
        os.close(reading)
        end_with_parent()
        if os.getppid() == parent:
            tell = partial(_COUNT.pack_into, counts, number * _COUNT.size)
            exit_code = _do(partial(work, number, tell, notice.wait), end, writing)
    except BaseException:  # noqa: BLE001 - nothing of the caller's may run in the copy
        traceback.print_exc(limit=0)
    finally:
        os._exit(exit_code)


def _do(begin: Callable[[], Iterator[Portion]], end: _Notice, writing: int) -> int:
    try:
        for portion in begin():
            with os.fdopen(writing, "wb") as stream:
                stream.write(msgspec.msgpack.encode(portion) + _COMPLETE)
            # What comes behind it can wait, and would keep others from what is waited for.
            end.wait()
    except MemoryError:
        return _OUT_OF_MEMORY
    return 0


def _received(shares: list[_Share], tick: Callable[[], None]) -> list[Portion]:
    """In the order in which they come: who is first is decoded while the others still work."""
    decode = msgspec.msgpack.Decoder(Portion).decode
    pieces: dict[int, list[bytes]] = {share.stream: [] for share in shares}
    waiting = {share.stream: share for share in shares}
    portions = []
    while waiting:
        ready, _, _ = select.select(waiting, (), (), _PROGRESS_SECONDS)
        tick()
        for stream in ready:
            if piece := os.read(stream, _PIECE_BYTES):
                pieces[stream].append(piece)
                continue
            os.close(stream)
            share, data = waiting.pop(stream), b"".join(pieces.pop(stream))
            if not data.endswith(_COMPLETE):
                _end_like(os.waitstatus_to_exitcode(os.waitpid(share.pid, 0)[1]))
            portions.append(decode(data[: -len(_COMPLETE)]))
    return portions


def _sum(counts: mmap.mmap) -> int:
    return sum(done for (done,) in _COUNT.iter_unpack(counts[:]))


def _end_like(exit_code: int) -> NoReturn:
    """A share that died takes all of us with it, in the same way: that is what is reported."""
    if exit_code == _OUT_OF_MEMORY:
        raise MemoryError
    if exit_code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    sys.exit(exit_code or 1)

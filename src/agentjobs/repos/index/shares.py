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
from typing import NamedTuple, NoReturn

import msgspec

from agentjobs.repos.index.lifeline import end_with_parent
from agentjobs.repos.index.portion import Portion

_COUNT = struct.Struct("=q")
_PIECE_BYTES = 1024 * 1024
_PROGRESS_SECONDS = 0.2
_OUT_OF_MEMORY = 3
_COMPLETE = b"complete"

Work = Callable[[int, Callable[[int], None]], Iterator[Portion]]


class _Share(NamedTuple):
    pid: int
    stream: int


@contextlib.contextmanager
def in_shares(work: Work, shares: int, progress: Callable[[int], None]) -> Iterator[list[Portion]]:
    """What `work` yields for each share; what it does afterwards is done when the block is left.

    `work` gets its number and a function to say how far it is.
    """
    if shares == 1:
        yield list(work(0, progress))
        return
    counts = mmap.mmap(-1, shares * _COUNT.size)
    started = [_start(work, number, counts) for number in range(shares)]
    received = _received(started, lambda: progress(_sum(counts)))
    decode = msgspec.msgpack.Decoder(Portion).decode
    portions = []
    for share, data in zip(started, received, strict=True):
        if not data.endswith(_COMPLETE):
            _end_like(os.waitstatus_to_exitcode(os.waitpid(share.pid, 0)[1]))
        portions.append(decode(data[: -len(_COMPLETE)]))
    yield portions
    for share in started:
        os.waitpid(share.pid, 0)


def _start(work: Work, number: int, counts: mmap.mmap) -> _Share:
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
        exit_code = 1 if os.getppid() != parent else _do(work, number, counts, writing)
    except BaseException:  # noqa: BLE001 - nothing of the caller's may run in the copy
        traceback.print_exc(limit=0)
    finally:
        os._exit(exit_code)


def _do(work: Work, number: int, counts: mmap.mmap, writing: int) -> int:
    def count(done: int) -> None:
        _COUNT.pack_into(counts, number * _COUNT.size, done)

    try:
        for portion in work(number, count):
            with os.fdopen(writing, "wb") as stream:
                stream.write(msgspec.msgpack.encode(portion) + _COMPLETE)
    except MemoryError:
        return _OUT_OF_MEMORY
    return 0


def _received(shares: list[_Share], tick: Callable[[], None]) -> list[bytes]:
    pieces: dict[int, list[bytes]] = {share.stream: [] for share in shares}
    waiting = set(pieces)
    while waiting:
        ready, _, _ = select.select(waiting, (), (), _PROGRESS_SECONDS)
        tick()
        for stream in ready:
            if piece := os.read(stream, _PIECE_BYTES):
                pieces[stream].append(piece)
            else:
                waiting.discard(stream)
                os.close(stream)
    return [b"".join(own) for own in pieces.values()]


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

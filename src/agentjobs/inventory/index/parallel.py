"""Runs work in several forked processes, any of which may crash, and collects the results.

Knows processes and pipes, but not what the work is.
"""

import contextlib
import ctypes
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

from agentjobs.inventory.index.partial_index import PartialIndex

_COUNT = struct.Struct("=q")
_CHUNK_BYTES = 1024 * 1024
_PROGRESS_SECONDS = 0.2
_OUT_OF_MEMORY = 3
_COMPLETE = b"complete"
_PR_SET_PDEATHSIG = 1

Receive = Callable[[], bytes]
Work = Callable[[int, Callable[[int], None], Receive], Iterator[PartialIndex]]


class _Process(NamedTuple):
    pid: int
    stream: int


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, even while it is busy.

    The caller must check afterwards that the parent is still alive.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def run_parallel(
    work: Work,
    process_count: int,
    progress: Callable[[int], None],
    prepare: Callable[[], bytes],
) -> Iterator[list[PartialIndex]]:
    """Yields one result of `work` per process; leaving the block waits for the rest of the work.

    `work` gets its process number, a function that reports progress, and one that waits for the
    data from `prepare`, which runs in this process meanwhile.
    """
    if process_count == 1:
        results = work(0, progress, prepare)
        yield [next(results)]
        rest = list(results)
        assert not rest
        return
    counts = mmap.mmap(-1, process_count * _COUNT.size)
    prepared, end = _Broadcast(), _Broadcast()
    processes = [_start(work, number, counts, prepared, end) for number in range(process_count)]
    prepared.send(prepare(), process_count)
    partials = _collect(processes, lambda: progress(_sum(counts)))
    yield partials
    end.send(b"over", process_count)
    for process in processes:
        os.waitpid(process.pid, 0)


class _Broadcast:
    """Data for all processes: it is in shared memory, and one byte per process announces it.

    A process that waits forever is killed when its parent ends.
    """

    def __init__(self) -> None:
        self._memory = os.memfd_create("broadcast")
        self._announced, self._announcing = os.pipe()

    def send(self, data: bytes, receivers: int) -> None:
        with os.fdopen(self._memory, "wb") as memory:
            memory.write(data)
        os.write(self._announcing, bytes(receivers))

    def receive(self) -> bytes:
        os.read(self._announced, 1)
        # Map it: the processes share one file position.
        with mmap.mmap(self._memory, 0, access=mmap.ACCESS_READ) as memory:
            return memory[:]


def _start(
    work: Work, number: int, counts: mmap.mmap, prepared: _Broadcast, end: _Broadcast
) -> _Process:
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Process(pid, reading)
    exit_code = 1
    try:
        os.close(reading)
        end_with_parent()
        if os.getppid() == parent:
            report = partial(_COUNT.pack_into, counts, number * _COUNT.size)
            exit_code = _run(partial(work, number, report, prepared.receive), end, writing)
    except BaseException:  # noqa: BLE001 - the caller's code must not run in the forked process
        traceback.print_exc(limit=0)
    finally:
        os._exit(exit_code)


def _run(begin: Callable[[], Iterator[PartialIndex]], end: _Broadcast, writing: int) -> int:
    try:
        for result in begin():
            with os.fdopen(writing, "wb") as stream:
                stream.write(msgspec.msgpack.encode(result) + _COMPLETE)
            # The rest of the work would slow down processes that still have to send a result.
            end.receive()
    except MemoryError:
        return _OUT_OF_MEMORY
    return 0


def _collect(processes: list[_Process], tick: Callable[[], None]) -> list[PartialIndex]:
    """In order of arrival: the first results are decoded while the other processes work."""
    decode = msgspec.msgpack.Decoder(PartialIndex).decode
    chunks: dict[int, list[bytes]] = {process.stream: [] for process in processes}
    waiting = {process.stream: process for process in processes}
    partials = []
    while waiting:
        ready, _, _ = select.select(waiting, (), (), _PROGRESS_SECONDS)
        tick()
        for stream in ready:
            if chunk := os.read(stream, _CHUNK_BYTES):
                chunks[stream].append(chunk)
                continue
            os.close(stream)
            process, data = waiting.pop(stream), b"".join(chunks.pop(stream))
            if not data.endswith(_COMPLETE):
                _exit_like(os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]))
            partials.append(decode(data[: -len(_COMPLETE)]))
    return partials


def _sum(counts: mmap.mmap) -> int:
    return sum(done for (done,) in _COUNT.iter_unpack(counts[:]))


def _exit_like(exit_code: int) -> NoReturn:
    """End this process as the failed one ended, because that exit is what gets reported."""
    if exit_code == _OUT_OF_MEMORY:
        raise MemoryError
    if exit_code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    sys.exit(exit_code or 1)

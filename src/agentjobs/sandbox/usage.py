"""What the processes of one sandbox use together, read from outside in the sandbox's own /proc.

Its descriptors are opened while nothing of the agent runs; no path of the agent's is ever followed.
"""

import contextlib
import os
from collections.abc import Iterator

from agentjobs.sandbox.limits import FILE_BYTES, KIB, Limits
from agentjobs.sandbox.mounts import HOME, SHARED_MEMORY, TEMPORARY

# Above this share of the limit it is worth to find out what processes share.
NEAR = 0.7
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_SCRATCH = (HOME, SHARED_MEMORY, TEMPORARY)
_READ_BYTES = 4096


class ProcessUsage:
    """A gauge of memory and CPU time. `look` may run in any thread, in one at a time."""

    def __init__(self, limits: Limits, init_pid: int) -> None:
        self._limits = limits
        self._clock = CpuClock()
        with contextlib.ExitStack() as held:
            self._proc = _held(f"/proc/{init_pid}/root/proc", held)
            self._scratch = [_held(f"/proc/{init_pid}/root{path}", held) for path in _SCRATCH]
            self._held = held.pop_all()

    def look(self) -> str | None:
        living = dict(self._processes())
        if self._limits.memory_bytes and self._memory(living) > self._limits.memory_bytes:
            return self._limits.memory_words
        seconds = self._clock.seconds(living)
        if self._limits.cpu_seconds and seconds >= self._limits.cpu_seconds:
            return self._limits.cpu_words
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self._held.close()

    def _processes(self) -> Iterator[tuple[int, "ProcessStat"]]:
        for name in os.listdir(self._proc):  # noqa: PTH208 - a descriptor, not a path
            if name.isdigit() and (content := self._read(f"{name}/stat")):
                yield int(name), ProcessStat(content)

    def _memory(self, living: dict[int, "ProcessStat"]) -> int:
        scratch = sum(map(_used_bytes, self._scratch))
        resident = sum(process.resident_bytes for process in living.values())
        if resident + scratch <= self._limits.memory_bytes * NEAR:
            return resident + scratch
        private, shared = 0, 0
        for pid, process in living.items():
            proportional = self._proportional(pid)
            private += process.resident_bytes if proportional is None else proportional[0]
            shared += 0 if proportional is None else proportional[1]
        # A mapped file of the scratch space is in both, and counts once.
        return private + max(shared, scratch)

    def _proportional(self, pid: int) -> tuple[int, int] | None:
        """Private bytes and shared ones, each page divided among those who have it mapped.

        Without pages of files: the kernel takes those back by itself.
        """
        fields = dict(
            line.split(b":", 1)
            for line in self._read(f"{pid}/smaps_rollup").splitlines()[1:]
            if line.startswith(b"Pss_")
        )
        if b"Pss_Anon" not in fields:
            return None
        return _kib(fields[b"Pss_Anon"]), _kib(fields[b"Pss_Shmem"])

    def _read(self, path: str) -> bytes:
        """Empty if the process is gone by now."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(descriptor, _READ_BYTES)
        except OSError:
            return b""
        finally:
            os.close(descriptor)


class ProcessStat:
    """A line of /proc/PID/stat."""

    __slots__ = ("_fields",)

    def __init__(self, content: bytes) -> None:
        # The name before the bracket may hold anything.
        self._fields = content.rpartition(b")")[2].split()

    @property
    def resident_bytes(self) -> int:
        return int(self._fields[21]) * _PAGE_BYTES

    @property
    def own_ticks(self) -> int:
        return int(self._fields[11]) + int(self._fields[12])

    @property
    def ticks_of_children(self) -> int:
        return int(self._fields[13]) + int(self._fields[14])

    @property
    def started(self) -> int:
        return int(self._fields[19])


class CpuClock:
    """Adds up what the living used and what the dead were last seen with.

    The kernel hands a dead process's time to its parent, but only if the parent waits for it. So
    both accounts are kept, and the higher one is believed.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}
        self._ticks_of_the_dead = 0

    def seconds(self, living: dict[int, ProcessStat]) -> float:
        seen = {(pid, process.started): process.own_ticks for pid, process in living.items()}
        self._ticks_of_the_dead += sum(
            ticks for process, ticks in self._seen.items() if process not in seen
        )
        self._seen = seen
        own = sum(seen.values())
        waited_for = sum(process.ticks_of_children for process in living.values())
        return (own + max(waited_for, self._ticks_of_the_dead)) / _TICKS


def _held(path: str, held: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    return descriptor


def _used_bytes(descriptor: int) -> int:
    found = os.statvfs(descriptor)
    files = found.f_files - found.f_ffree
    return (found.f_blocks - found.f_bfree) * found.f_frsize + files * FILE_BYTES


def _kib(text: bytes) -> int:
    return int(text.split()[0]) * KIB

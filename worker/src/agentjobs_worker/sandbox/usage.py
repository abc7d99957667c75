"""Measures what the processes of one sandbox use, read from outside in the sandbox's /proc.

Opens its descriptors before the agent runs, and follows no path that the agent controls.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from agentjobs_runtime.sandboxes.limits import FILE_BYTES, GIB, KIB, Limits
from agentjobs_worker.sandbox.kernel_memory import DESCRIPTOR_BYTES, SocketMemory
from agentjobs_worker.sandbox.priority import SessionPriorities

# CPU time is counted in steps of 10 ms, in which an agent can fill many buffers.
_COMPLETE_MEASUREMENT_SECONDS = 5
# Above this fraction of the limit, memory shared between processes is measured exactly.
EXACT_ABOVE_FRACTION = 0.7
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_READ_BYTES = 4096
# Tables of sockets. More than this exceeds any limit.
_MAX_TABLE_BYTES = 16 * 1024 * KIB
# Page tables are at most this fraction of the addresses of a process.
_PAGE_TABLE_FRACTION = 512
_LARGE_ADDRESS_SPACE_BYTES = 4 * GIB


class ProcessUsage:
    """A gauge of memory and CPU time. `exceeded_limit` may run in any thread, one at a time."""

    def __init__(self, limits: Limits, init_pid: int, scratch: Iterable[PurePath]) -> None:
        self._limits = limits
        self._cpu_time = CpuTime()
        self.is_quiet = False
        self._stats: dict[str, bytes] = {}
        self._measured_at = 0.0
        with contextlib.ExitStack() as stack:
            self._proc = _open_directory(f"/proc/{init_pid}/root/proc", stack)
            self._scratch = [
                _open_directory(f"/proc/{init_pid}/root{path}", stack) for path in scratch
            ]
            self._descriptors = stack.pop_all()
        self._sockets = SocketMemory(self._read, self._read_table)
        self._priorities = SessionPriorities(self._proc)

    def exceeded_limit(self) -> str | None:
        """Reads memory if a process did something since the last call, or after some seconds."""
        stats = self._read_stats()
        self.is_quiet = stats == self._stats
        started_at = time.monotonic()
        if self.is_quiet and started_at < self._measured_at + _COMPLETE_MEASUREMENT_SECONDS:
            return None
        exceeded = self._measure(self._processes(stats))
        self._stats, self._measured_at = stats, started_at
        return exceeded

    def _measure(self, processes: dict[str, "ProcessStat"]) -> str | None:
        if self._priorities.is_needed:
            self._priorities.lower((pid, process.session) for pid, process in processes.items())
        if self._limits.memory_bytes and self._exceeds_memory(processes):
            return self._limits.memory_text
        seconds = self._cpu_time.seconds(processes)
        if self._limits.cpu_seconds and seconds >= self._limits.cpu_seconds:
            return self._limits.cpu_text
        return None

    def _exceeds_memory(self, processes: dict[str, "ProcessStat"]) -> bool:
        """Two readings: a process that forks during the first one may be counted twice."""
        limit = self._limits.memory_bytes
        if self._memory(processes) <= limit:
            return False
        return self._memory(self._processes(self._read_stats())) > limit

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self._descriptors.close()

    def _read_stats(self) -> dict[str, bytes]:
        names = filter(str.isdigit, os.listdir(self._proc))  # noqa: PTH208 - a descriptor
        return {name: content for name in names if (content := self._read(f"{name}/stat"))}

    def _processes(self, stats: Mapping[str, bytes]) -> dict[str, "ProcessStat"]:
        processes = ((name, ProcessStat(content)) for name, content in stats.items())
        return dict(
            self._other_thread(name, process) if process.has_only_other_threads else (name, process)
            for name, process in processes
        )

    def _other_thread(self, pid: str, process: "ProcessStat") -> tuple[str, "ProcessStat"]:
        """The memory of a process whose first thread has ended is shown for its other threads."""
        with contextlib.suppress(OSError):
            for thread in _list(f"{pid}/task", self._proc):
                path = f"{pid}/task/{thread}"
                if content := self._read(f"{path}/stat"):
                    resident = ProcessStat(content)
                    if resident.resident_bytes:
                        return path, process.with_memory_from(resident)
        return pid, process

    def _memory(self, processes: dict[str, "ProcessStat"]) -> int:
        scratch = sum(map(_used_bytes, self._scratch))
        resident = sum(process.resident_bytes for process in processes.values())
        kernel = self._kernel(processes)
        exact_above = self._limits.memory_bytes * EXACT_ABOVE_FRACTION
        if resident + scratch + kernel + self._sockets.max_bytes > exact_above:
            kernel += self._sockets.used_bytes
        if resident + scratch + kernel <= exact_above:
            return resident + scratch + kernel
        private, shared = kernel, 0
        for pid, process in processes.items():
            proportional = self._proportional(pid)
            private += process.resident_bytes if proportional is None else proportional[0]
            shared += 0 if proportional is None else proportional[1]
        # A mapped file in the scratch space is in both numbers, and counts once.
        return private + max(shared, scratch)

    def _kernel(self, processes: dict[str, "ProcessStat"]) -> int:
        """Page tables and descriptors."""
        used = 0
        for pid, process in processes.items():
            if process.address_space_bytes > _LARGE_ADDRESS_SPACE_BYTES:
                used += self._page_tables(pid)
            else:
                used += process.resident_bytes // _PAGE_TABLE_FRACTION
            used += self._open_descriptors(pid) * DESCRIPTOR_BYTES
        return used

    def _page_tables(self, pid: str) -> int:
        _, found, rest = self._read(f"{pid}/status").partition(b"\nVmPTE:")
        return _kib(rest) if found else 0

    def _open_descriptors(self, pid: str) -> int:
        try:
            # The size is their number since Linux 6.2, and 0 before.
            number = os.stat(f"{pid}/fd", dir_fd=self._proc).st_size
            return number or len(_list(f"{pid}/fd", self._proc))
        except OSError:
            return 0

    def _proportional(self, pid: str) -> tuple[int, int] | None:
        """Private and shared bytes, with each shared page divided among its processes.

        Excludes pages of files, which the kernel can reclaim.
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
        """Empty if the process has ended."""
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

    def _read_table(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return b""
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MAX_TABLE_BYTES)


class ProcessStat:
    """The line in /proc/PID/stat."""

    __slots__ = ("_fields",)

    def __init__(self, content: bytes) -> None:
        # The process name before the bracket may contain anything.
        self._fields = content.rpartition(b")")[2].split()

    @property
    def has_only_other_threads(self) -> bool:
        """Whether the first thread has ended and others run."""
        return self._fields[0] == b"Z" and int(self._fields[17]) > 1

    def with_memory_from(self, thread: "ProcessStat") -> "ProcessStat":
        self._fields[20:22] = thread._fields[20:22]
        return self

    @property
    def session(self) -> int:
        return int(self._fields[3])

    @property
    def address_space_bytes(self) -> int:
        return int(self._fields[20])

    @property
    def resident_bytes(self) -> int:
        return int(self._fields[21]) * _PAGE_BYTES

    @property
    def own_ticks(self) -> int:
        return int(self._fields[11]) + int(self._fields[12])

    @property
    def child_ticks(self) -> int:
        return int(self._fields[13]) + int(self._fields[14])

    @property
    def start_ticks(self) -> int:
        return int(self._fields[19])


class CpuTime:
    """Adds up the CPU time of running processes and the last measured time of ended ones.

    The kernel adds an ended process's time to its parent, but only if the parent waits for it. So
    both sums are kept, and the higher one counts.
    """

    def __init__(self) -> None:
        self._last_ticks: dict[tuple[str, int], int] = {}
        self._ended_ticks = 0

    def seconds(self, processes: dict[str, ProcessStat]) -> float:
        ticks_by_process = {
            (pid, process.start_ticks): process.own_ticks for pid, process in processes.items()
        }
        self._ended_ticks += sum(
            ticks for process, ticks in self._last_ticks.items() if process not in ticks_by_process
        )
        self._last_ticks = ticks_by_process
        own = sum(ticks_by_process.values())
        reaped = sum(process.child_ticks for process in processes.values())
        return (own + max(reaped, self._ended_ticks)) / _TICKS_PER_SECOND


def _list(path: str, parent: int) -> list[str]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        return os.listdir(descriptor)  # noqa: PTH208 - a descriptor, not a path
    finally:
        os.close(descriptor)


def _open_directory(path: str, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _used_bytes(descriptor: int) -> int:
    status = os.statvfs(descriptor)
    files = status.f_files - status.f_ffree
    return (status.f_blocks - status.f_bfree) * status.f_frsize + files * FILE_BYTES


def _kib(text: bytes) -> int:
    return int(text.split()[0]) * KIB

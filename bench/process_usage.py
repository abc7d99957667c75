"""CPU time and memory of a process and its children, from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Since their start; children that have ended count for the process that waited for them."""
    return sum(map(_cpu_ticks, _tree(pid))) / _TICKS_PER_SECOND


def memory_mb(pid: int) -> float:
    """Pages that several processes share count once."""
    return sum(map(_proportional_kib, _tree(pid))) / 1_000 * 1.024


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return
    for thread in threads:
        for child in _read(thread / "children").split():
            yield from _tree(int(child))


def _cpu_ticks(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    # utime, stime, cutime and cstime.
    return sum(map(int, fields[11:15]))


def _proportional_kib(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _read(path: Path) -> str:
    """Empty if the process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""

"""A target is a parser of untrusted bytes, with the inputs to try and what it may do with them.

For every input it returns, or raises an error that it declares, within CPU time and output that are
linear in the input. Only CPU time is measured, because the machine may be busy.
"""

import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.hostile.fuzz.documents import Inputs

# For one input: what any parser may take, and what each byte may add.
BASE_SECONDS = 1.0
SECONDS_PER_BYTE = 30e-6
BASE_OUTPUT = 256 * 1024
OUTPUT_PER_BYTE = 64
MAX_SECONDS = 10.0

# Growth: a parser that takes this long for the larger input must take about as long per byte as for
# an input of a quarter of its size. Quadratic time would be 16 times as long, linear time 4 times.
NOTICEABLE_SECONDS = 0.2
MAX_GROWTH = 9.0
MEMORY_PER_BYTE = 400
BASE_MEMORY = 16 * 1024**2

# The units of every run; `UNITS` are for long ones.
CORE_UNITS = ("[", "(", '"', "\\", "<", "#", " ", "\n", "a.", "[a", "/*a", '\\"', '{"a":')
UNITS = (
    *("[", "]", "{", "}", "(", ")", "<", ">", '"', "'", "`", "\\", "/", "#", " ", "\n", "\t", "\r"),
    *(".", ",", ":", ";", "-", "=", "*", "_", "!", "&", "%", "@", "a", "9", "\0", "\x1b", "\u00e9"),
    *("a.", "a,", "a ", "a\n", "a=", "a:", "[]", "{}", "()", "[a", "(a", "<a", "<a>", "</", '"a'),
    *("a-", "\\n", '\\"', "//", "/*", "* ", "- ", "> ", "# ", "\r\n", " \n", ",\n", "\x1b[", "&#"),
    *(
        "../",
        "::",
        "--",
        "**",
        "~~",
        '""',
        "[[",
        "]]",
        '":',
        '{"',
        '{"a":',
        "[0,",
        "a\x1b[K",
        "/*a",
        "<!--a",
        "<![CDATA[",
        "1.",
        "1-",
        "\x1b[0;",
    ),
)

Input = bytes | str


@dataclass(frozen=True)
class Target:
    """`frames` are texts around the repeated units of a growth check, in the place of `{}`.

    `max_bytes` is the size that the parser's callers bound its input to.
    """

    name: str
    inputs: Inputs
    call: Callable[[Any], object]
    errors: tuple[type[Exception], ...] = ()
    frames: Sequence[str] = ("{}",)
    units: Sequence[str] = ()
    max_bytes: int = 1024 * 1024
    is_text: bool = False
    # False for a parser whose output is not bounded by its input, such as a decompressor.
    bounds_output: bool = True

    def check(self, value: Any) -> None:
        size = len(value) if isinstance(value, bytes | str) else 4_096
        seconds, result = self.measure(value)
        allowed = BASE_SECONDS + SECONDS_PER_BYTE * size
        assert seconds < allowed, f"{size} bytes take {seconds:.2f} s of CPU time"
        if self.bounds_output:
            weight = weigh(result)
            assert weight < BASE_OUTPUT + OUTPUT_PER_BYTE * size, f"{size} bytes give {weight}"

    def measure(self, value: Any) -> tuple[float, object]:
        """CPU seconds, and what was returned; None for a declared error."""
        started = time.thread_time()
        result: object = None
        with cpu_limit(MAX_SECONDS), suppress(*self.errors):
            result = self.call(value)
        return time.thread_time() - started, result

    def growth_cases(self, units: Sequence[str] = UNITS) -> Iterator[tuple[str, str]]:
        """Each unit alone, and before a character that ends what was matched so far."""
        for frame in self.frames:
            for unit in dict.fromkeys((*units, *self.units)):
                yield frame, unit
                if "{}" in frame and units is UNITS:
                    yield frame.replace("{}", "{}!"), unit

    def check_growth(self, frame: str, unit: str, max_size: int) -> None:
        size = min(max_size, self.max_bytes)
        seconds, _ = self.measure(self._repeated(frame, unit, size))
        if seconds < NOTICEABLE_SECONDS:
            return
        # Twice, because other processes empty the caches of the processor.
        again, _ = self.measure(self._repeated(frame, unit, size))
        seconds = min(seconds, again)
        quarter = max(self.measure(self._repeated(frame, unit, size // 4))[0] for _ in range(2))
        growth = seconds / max(quarter, 0.001)
        assert growth < MAX_GROWTH, (
            f"{size} bytes of {unit!r} in {frame!r} take {seconds:.2f} s of CPU time,"
            f" {growth:.0f} times as long as a quarter of them"
        )

    def check_memory(self, frame: str, unit: str, size: int) -> None:
        value = self._repeated(frame, unit, min(size, self.max_bytes))
        self.measure(value)
        tracemalloc.start()
        try:
            self.measure(value)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        allowed = BASE_MEMORY + MEMORY_PER_BYTE * len(value)
        assert peak < allowed, (
            f"{len(value)} bytes of {unit!r} in {frame!r} take {peak >> 20} MiB of memory"
        )

    def _repeated(self, frame: str, unit: str, size: int) -> Input:
        parts = frame.split("{}")
        count = max(1, (size - len(frame)) // (len(unit.encode()) * max(1, len(parts) - 1)))
        text = (unit * count).join(parts)
        return text if self.is_text else text.encode()


class CpuTimeExceeded(BaseException):
    """Not an Exception, so that no parser catches it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Regular expressions and Python code are interrupted; other C code is not."""

    def stop(*_: object) -> None:
        raise CpuTimeExceeded

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except CpuTimeExceeded:
        raise AssertionError(f"it takes more than {seconds:.0f} s of CPU time") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def weigh(value: object) -> int:
    """About how many bytes a result has."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str | bytes | bytearray):
            total += len(item)
        elif isinstance(item, dict):
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            pending += item
        elif isinstance(item, msgspec.Struct):
            pending += (getattr(item, name) for name in item.__struct_fields__)
        total += 8
    return total

"""Remembers what was rendered of commits, which never change: the latest, up to so many bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache

from markupsafe import Markup

MAX_BYTES = 32 * 1024 * 1024
# What a string costs beside its characters.
_OVERHEAD = 64

Lines = tuple[Markup, ...]


class RenderedDiffs:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[str, ...], tuple[Lines, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], render: Callable[[], Lines]) -> Lines:
        """Two who ask at once may both render: that is cheaper than to wait for each other."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        lines = render()
        self._keep(key, lines)
        return lines

    def _keep(self, key: tuple[str, ...], lines: Lines) -> None:
        # Characters outside ASCII make a string of two or four bytes each.
        size = sum(_OVERHEAD + len(line) * (1 if line.isascii() else 4) for line in lines)
        if size > self._max_bytes // 4:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (lines, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._bytes -= self._entries.popitem(last=False)[1][1]


@cache
def shared() -> RenderedDiffs:
    """That of this process."""
    return RenderedDiffs()

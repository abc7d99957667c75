"""Caches rendered diff lines, least recently used out first, up to a total size.

The diff of two commits never changes.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache

from markupsafe import Markup

MAX_BYTES = 32 * 1024 * 1024
# Memory of a string beside its characters.
_STRING_OVERHEAD_BYTES = 64

Lines = tuple[Markup, ...]


class RenderedDiffCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[str, ...], tuple[Lines, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], render: Callable[[], Lines]) -> Lines:
        """Concurrent callers may both render, which is cheaper than waiting for each other."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        lines = render()
        self._add(key, lines)
        return lines

    def _add(self, key: tuple[str, ...], lines: Lines) -> None:
        # A non-ASCII string takes up to four bytes per character.
        size = sum(
            _STRING_OVERHEAD_BYTES + len(line) * (1 if line.isascii() else 4) for line in lines
        )
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
def shared_cache() -> RenderedDiffCache:
    """The cache of this process."""
    return RenderedDiffCache()

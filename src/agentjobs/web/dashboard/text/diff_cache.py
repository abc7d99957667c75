"""Caches rendered diff lines up to a total size. The diff of two commits never changes."""

from collections.abc import Callable
from functools import cache

from markupsafe import Markup

from agentjobs.weighted_cache import WeightedCache

MAX_BYTES = 32 * 1024 * 1024
# Memory of a string beside its characters.
_STRING_OVERHEAD_BYTES = 64

Lines = tuple[Markup, ...]


class RenderedDiffCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._diffs: WeightedCache[tuple[str, ...], Lines] = WeightedCache(
            max_bytes, max_bytes // 4
        )

    def get(self, key: tuple[str, ...], render: Callable[[], Lines]) -> Lines:
        """Concurrent callers may both render, which is cheaper than waiting for each other."""
        lines = self._diffs.get(key)
        if lines is None:
            lines = render()
            self._diffs.put(key, lines, _size_bytes(lines))
        return lines


def _size_bytes(lines: Lines) -> int:
    # A non-ASCII string takes up to four bytes per character.
    return sum(_STRING_OVERHEAD_BYTES + len(line) * (1 if line.isascii() else 4) for line in lines)


@cache
def shared_cache() -> RenderedDiffCache:
    """The cache of this process."""
    return RenderedDiffCache()

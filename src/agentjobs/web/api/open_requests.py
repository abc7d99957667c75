"""Limits the log streams and long polls that an API key keeps open, in this process."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from agentjobs.problems import Problem

_RETRY_SECONDS = 5


class OpenRequests:
    def __init__(self, max_per_key: int) -> None:
        self._max_per_key = max_per_key
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, key_id: str) -> Iterator[None]:
        """Raises `rate_limited` if the key has too many open requests."""
        if self._open[key_id] >= self._max_per_key:
            raise Problem(
                "rate_limited",
                f"This API key has {self._max_per_key} log streams and long polls open; "
                f"close some of them, or retry after {_RETRY_SECONDS} s.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._open[key_id] += 1
        try:
            yield
        finally:
            self._open[key_id] -= 1
            if not self._open[key_id]:
                del self._open[key_id]

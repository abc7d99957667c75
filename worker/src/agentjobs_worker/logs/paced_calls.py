"""Spreads calls over turns of the event loop, in their order. Knows nothing of what they do."""

import asyncio
from collections import deque
from collections.abc import Callable

# Pieces of output: several times as many as one event of an agent has. An agent that writes faster
# than its output is processed has to wait.
_MAX_WAITING = 256


class PacedCalls:
    """The first call is made at once, those that were added with it or after it in a turn each."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, *calls: Callable[[], None]) -> None:
        self._waiting.extend(calls)
        if not self._is_scheduled:
            self._continue()
        while len(self._waiting) > _MAX_WAITING:
            self._waiting.popleft()()

    async def wait_until_done(self) -> None:
        while self._waiting:  # noqa: ASYNC110 - one of them is called in each turn
            await asyncio.sleep(0)

    def _continue(self) -> None:
        self._is_scheduled = len(self._waiting) > 1
        if self._is_scheduled:
            asyncio.get_running_loop().call_soon(self._continue)
        if self._waiting:
            self._waiting.popleft()()

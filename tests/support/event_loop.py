"""An event loop that closes its servers' connections when it is closed.

A server may accept a connection at the end of a test that nothing handles any more. The garbage
collector would find its socket much later and report it in another test.
"""

import asyncio
import time
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


class TidyLoop(asyncio.SelectorEventLoop):
    def close(self) -> None:
        if not self.is_closed() and not self.is_running() and _abort_accepted(self):
            self.run_until_complete(asyncio.sleep(0))
        super().close()


class TidyLoops(asyncio.DefaultEventLoopPolicy):
    _loop_factory = TidyLoop


def _abort_accepted(loop: BaseSelectorEventLoop) -> bool:
    """Abort accepted connections only: a client connection left open is a bug in its test."""
    accepted = [
        transport for transport in loop._transports.values() if transport._server is not None
    ]
    for transport in accepted:
        transport.abort()
    return bool(accepted)


@dataclass
class LongestTurn:
    cpu_seconds: float = 0


@asynccontextmanager
async def longest_turn() -> AsyncIterator[LongestTurn]:
    """The most CPU time that this thread used in one turn of the loop, however busy the machine."""
    longest = LongestTurn()
    ended = asyncio.Event()

    async def measure() -> None:
        before = time.thread_time()
        while not ended.is_set():
            await asyncio.sleep(0)
            after = time.thread_time()
            longest.cpu_seconds = max(longest.cpu_seconds, after - before)
            before = after

    measuring = asyncio.create_task(measure())
    try:
        yield longest
    finally:
        ended.set()
        await measuring

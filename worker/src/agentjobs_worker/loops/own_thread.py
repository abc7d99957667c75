"""Runs a coroutine in a thread with its own event loop, which a busy main loop cannot delay."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


async def run_in_own_thread(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A cancellation cancels the work too, and waits for its end."""
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    is_cancelled = False

    async def main() -> None:
        task = asyncio.ensure_future(work())
        started.append((asyncio.get_running_loop(), task))
        if is_cancelled:
            task.cancel()
        await task

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())

    with ThreadPoolExecutor(1, thread_name_prefix=name) as executor:
        running = asyncio.get_running_loop().run_in_executor(executor, run)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            is_cancelled = True
            for loop, task in started:
                # The loop may have been closed in the meantime.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait({running})
            raise

"""A process held by its pidfd, so that killing and waiting never hits a recycled pid."""

import asyncio
import contextlib
import os
import signal
from typing import Any


class Child:
    """`ended` is done when the process is dead; for a namespace's init, when all in it are."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._on_end)

    def kill(self) -> None:
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def reap_if_ours(self) -> None:
        """An orphan becomes our child if we are the first process of a container."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)

    def close(self) -> None:
        self.ended.cancel()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        if not self.ended.done():
            self.ended.set_result(None)


async def wait_despite_cancellation(*futures: asyncio.Future[Any]) -> None:
    """Wait for all of them, and raise a cancellation only afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while waiting := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled

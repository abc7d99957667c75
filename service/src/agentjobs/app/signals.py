"""Signal handlers: stopping a service, and logging its tasks."""

import asyncio
import logging
import signal
from collections.abc import Iterator

_log = logging.getLogger(__name__)


class Stop:
    """The first signal requests a stop, the second one skips the grace period."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.force_stop = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request)
        loop.add_signal_handler(signal.SIGUSR1, log_tasks)

    def _request(self) -> None:
        (self.force_stop if self.requested.is_set() else self.requested).set()


def log_tasks() -> None:
    """Logs where each task waits, to diagnose a service that hangs."""
    for task in asyncio.all_tasks():
        fields = {
            "task": task.get_name(),
            "waits_in": list(_stack(task.get_coro())),
            "cancelled": task.cancelling(),
        }
        _log.warning("running task", extra={"fields": fields})


def _stack(coroutine: object) -> Iterator[str]:
    """The stack of a coroutine, outermost call first."""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None)

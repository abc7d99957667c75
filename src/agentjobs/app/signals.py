"""How a service is told to stop, and asked what it is at."""

import asyncio
import logging
import signal
from collections.abc import Iterator

_log = logging.getLogger(__name__)


class Stop:
    """The first signal asks to stop, the second to hurry."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask)
        loop.add_signal_handler(signal.SIGUSR1, log_tasks)

    def _ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()


def log_tasks() -> None:
    """A line for each task, with the places where it waits: of a service that seems to hang."""
    for task in asyncio.all_tasks():
        fields = {
            "task": task.get_name(),
            "waits_in": list(_places(task.get_coro())),
            "cancelled": task.cancelling(),
        }
        _log.warning("task under way", extra={"fields": fields})


def _places(waiting: object) -> Iterator[str]:
    """From the outermost call to the innermost."""
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        waiting = getattr(waiting, "cr_await", None)

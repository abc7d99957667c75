"""How a service is told to stop."""

import asyncio
import signal


class Stop:
    """The first signal asks to stop, the second to hurry."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask)

    def _ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()

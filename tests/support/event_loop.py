"""An event loop whose servers let go of their connections when it is closed.

Whoever connects in the last moment of a test is accepted, and nobody hears of it any more: the
collector would find the socket much later, and blame another test for it.
"""

import asyncio
from asyncio.selector_events import BaseSelectorEventLoop


class TidyLoop(asyncio.SelectorEventLoop):
    def close(self) -> None:
        if not self.is_closed() and not self.is_running() and _let_go(self):
            self.run_until_complete(asyncio.sleep(0))
        super().close()


class TidyLoops(asyncio.DefaultEventLoopPolicy):
    _loop_factory = TidyLoop


def _let_go(loop: BaseSelectorEventLoop) -> bool:
    """Only of what a server accepted: a client that nobody closed is a fault of its own."""
    accepted = [one for one in loop._transports.values() if one._server is not None]
    for transport in accepted:
        transport.abort()
    return bool(accepted)

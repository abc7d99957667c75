"""An event loop that closes its servers' connections when it is closed.

A server may accept a connection at the end of a test that nothing handles any more. The garbage
collector would find its socket much later and report it in another test.
"""

import asyncio
from asyncio.selector_events import BaseSelectorEventLoop


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

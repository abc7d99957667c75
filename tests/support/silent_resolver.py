"""A resolver that blocks until it is released, as with an unreachable name server."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class SilentResolver:
    def __init__(self) -> None:
        self.lookups: list[str] = []
        self.released = threading.Event()

    def lookup(self, host: str) -> Sequence[str]:
        self.lookups.append(host)
        self.released.wait()
        raise OSError("no such name")


@contextmanager
def silent_resolver() -> Iterator[SilentResolver]:
    resolver = SilentResolver()
    try:
        yield resolver
    finally:
        resolver.released.set()

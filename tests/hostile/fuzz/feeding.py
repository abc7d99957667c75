"""Feeds a parser in pieces, and runs a coroutine without an event loop."""

import itertools
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def split_bytes(data: bytes) -> Iterator[bytes]:
    """Pieces of different lengths, which only depend on the data."""
    at = 0
    for length in itertools.cycle((1, 3, 4, 64, 5, 4096)):
        if at >= len(data):
            return
        yield data[at : at + length]
        at += length


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Without an event loop, which takes longer to make than most inputs to parse."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result

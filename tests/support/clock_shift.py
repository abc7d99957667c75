"""A wrong clock: the machine's differs from that of PostgreSQL."""

import time
from collections.abc import Callable

import pytest

ShiftClock = Callable[[float], None]
"""Moves the clock of this machine by some seconds."""


def clock_shifter(monkeypatch: pytest.MonkeyPatch) -> ShiftClock:
    real = time.time_ns

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1e9))

    return shift

"""A wrong clock: the machine's differs from that of PostgreSQL."""

import time
from collections.abc import Callable

import pytest

from agentjobs_runtime import identifiers

ShiftClock = Callable[[float], None]
"""Moves the clock of this machine by some seconds."""


def clock_shifter(monkeypatch: pytest.MonkeyPatch) -> ShiftClock:
    real = time.time_ns
    # Identifiers only increase: after the test, they must not continue from a time in the future.
    monkeypatch.setattr(identifiers, "_last", identifiers._last)

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1e9))

    return shift

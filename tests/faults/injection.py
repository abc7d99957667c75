"""Begins and ends the faults of a schedule, at their times or when a process reaches a phase.

Everything happens in one thread, because servers end with the thread that starts them.
"""

import heapq
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count

from tests.faults.fleet import Fleet
from tests.faults.phases import Report
from tests.faults.schedule import PlannedFault, Schedule

_PAUSE_SECONDS = 0.02
_REPLY_SECONDS = 30.0


class Injector:
    """Reports are collected from the beginning; faults begin after `open`."""

    def __init__(self, fleet: Fleet, schedule: Schedule) -> None:
        self.reports: list[Report] = []
        self._fleet = fleet
        self._schedule = schedule
        self._closes_at = 0.0
        self._reached: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._waiting: queue.SimpleQueue[tuple[PlannedFault, str, threading.Event]] = (
            queue.SimpleQueue()
        )
        self._by_phase = [each for each in schedule.faults if each.phase]

    def open(self, seconds: float) -> None:
        """No fault begins later than this."""
        with self._lock:
            self._reached.clear()
            self._closes_at = time.monotonic() + seconds
            for planned in self._schedule.faults:
                if planned.at is not None:
                    self._begin_later(planned.at, planned, planned.target)

    def receive(self, report: Report) -> None:
        """In a thread of its own, while the process waits."""
        with self._lock:
            self.reports.append(report)
            planned = self._take(report.phase)
            if planned is not None and planned.delay:
                self._begin_later(planned.delay, planned, report.process)
                return
        if planned is not None:
            has_begun = threading.Event()
            self._waiting.put((planned, report.process, has_begun))
            has_begun.wait(_REPLY_SECONDS)

    def _take(self, phase: str) -> PlannedFault | None:
        self._reached[phase] += 1
        if time.monotonic() > self._closes_at:
            return None
        for planned in self._by_phase:
            if (planned.phase, planned.occurrence) == (phase, self._reached[phase]):
                self._by_phase.remove(planned)
                return planned
        return None

    @property
    def is_active(self) -> bool:
        """Whether a fault lasts, or will begin at its time."""
        with self._lock:
            return bool(self._due) or not self._waiting.empty()

    def step(self) -> None:
        """Do what is due; restart what ended."""
        self._fleet.restart_ended()
        with self._lock:
            due = []
            while self._due and self._due[0][0] <= time.monotonic():
                due.append(heapq.heappop(self._due)[2])
        for act in due:
            act()
        try:
            planned, target, has_begun = self._waiting.get(timeout=_PAUSE_SECONDS)
        except queue.Empty:
            return
        self._begin(planned, target)
        has_begun.set()

    def _begin(self, planned: PlannedFault, target: str) -> None:
        self._fleet.begin(planned, target)
        self._later(planned.seconds, lambda: self._fleet.end(planned, target))

    def _begin_later(self, seconds: float, planned: PlannedFault, target: str) -> None:
        self._add(seconds, lambda: self._begin(planned, target))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        with self._lock:
            self._add(seconds, act)

    def _add(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))

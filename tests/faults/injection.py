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

from tests.faults.fleet import Disturbance, Fleet
from tests.faults.phases import Report
from tests.faults.schedule import PlannedFault, Schedule

# The last phase of every run, whatever its outcome.
ENDING = "finishing"
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
        # The number of the end that is due for each fault that lasts.
        self._lasting: dict[int, PlannedFault] = {}

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
            self._end_early(report.phase)
            begun = [self._begin_at(planned, report) for planned in self._take(report.phase)]
        for has_begun in begun:
            has_begun.wait(_REPLY_SECONDS)

    def _begin_at(self, planned: PlannedFault, report: Report) -> threading.Event:
        has_begun = threading.Event()
        if planned.delay:
            self._begin_later(planned.delay, planned, report.process)
            has_begun.set()
        else:
            self._waiting.put((planned, report.process, has_begun))
        return has_begun

    def _take(self, phase: str) -> list[PlannedFault]:
        self._reached[phase] += 1
        if time.monotonic() > self._closes_at:
            return []
        reached = (phase, self._reached[phase])
        due = [each for each in self._by_phase if (each.phase, each.occurrence) == reached]
        self._by_phase = [each for each in self._by_phase if each not in due]
        return due

    def _end_early(self, phase: str) -> None:
        numbers = [number for number, each in self._lasting.items() if each.until == phase]
        self._due = [
            (0.0 if number in numbers else at, number, act) for at, number, act in self._due
        ]
        heapq.heapify(self._due)

    @property
    def is_active(self) -> bool:
        """Whether a fault lasts, or will begin at its time."""
        with self._lock:
            return bool(self._due or self._lasting) or not self._waiting.empty()

    def is_busy(self) -> bool:
        """Whether a living process has not ended a run that it has begun."""
        with self._lock:
            ended = {(each.job_id, each.fence) for each in self.reports if each.phase == ENDING}
            return any(
                report.phase == "claimed"
                and (report.job_id, report.fence) not in ended
                and report.pid == self._fleet.processes[report.process].pid
                for report in self.reports
            )

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
        disturbance = self._fleet.begin(planned, target)
        with self._lock:
            number = next(self._numbers)
            self._lasting[number] = planned
            end = (
                time.monotonic() + planned.seconds,
                number,
                lambda: self._end(number, planned, target, disturbance),
            )
            heapq.heappush(self._due, end)

    def _end(
        self, number: int, planned: PlannedFault, target: str, disturbance: Disturbance
    ) -> None:
        self._fleet.end(planned, target)
        disturbance.ended_ms = time.time_ns() // 1_000_000
        with self._lock:
            del self._lasting[number]

    def _begin_later(self, seconds: float, planned: PlannedFault, target: str) -> None:
        begin = (
            time.monotonic() + seconds,
            next(self._numbers),
            lambda: self._begin(planned, target),
        )
        heapq.heappush(self._due, begin)

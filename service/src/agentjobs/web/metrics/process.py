"""Metrics of one process: event loop, disk, webhook attempts, and a worker's slots and leases."""

import os
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from agentjobs_runtime.free_space import MIB
from agentjobs_runtime.loop_monitor import BUCKETS, LoopMonitor


class LoopMetrics(Collector):
    def __init__(self, monitor: LoopMonitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterator[Metric]:
        bounds = (*map(str, BUCKETS), "+Inf")
        cumulative = list(zip(bounds, accumulate(self._monitor.counts), strict=True))
        delays = HistogramMetricFamily(
            "agentjobs_event_loop_delay_seconds", "How late the event loop runs its callbacks."
        )
        delays.add_metric((), cumulative, self._monitor.total_seconds)
        yield delays


class DiskMetrics(Collector):
    def __init__(self, directories: Mapping[str, Path], floor_mib: int) -> None:
        self._directories = directories
        self._floor_bytes = floor_mib * MIB

    def collect(self) -> Iterator[Metric]:
        free = GaugeMetricFamily(
            "agentjobs_disk_free_bytes",
            "Free space for the directories of this process.",
            labels=("directory",),
        )
        for name, path in self._directories.items():
            try:
                status = os.statvfs(path)
            except OSError:
                # Machines that serve no repositories have no directory for them.
                continue
            free.add_metric((name,), status.f_bavail * status.f_frsize)
        yield free
        yield GaugeMetricFamily(
            "agentjobs_disk_floor_bytes",
            "Free space below which this process starts nothing (disk_floor_mib).",
            value=self._floor_bytes,
        )


class AttemptMetrics(Collector):
    def __init__(self, results: Mapping[str, int]) -> None:
        self._results = results

    def collect(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            "agentjobs_webhook_attempts",
            "Attempts of this process to deliver webhooks: success, or the class of the error.",
            labels=("result",),
        )
        for result, count in self._results.items():
            attempts.add_metric((result,), count)
        yield attempts


class WorkerState(Protocol):
    @property
    def slots(self) -> int: ...

    @property
    def busy_slots(self) -> int: ...

    @property
    def failed_renewals(self) -> int: ...

    @property
    def lost_leases(self) -> int: ...


class WorkerMetrics(Collector):
    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        worker = self._worker
        slots = GaugeMetricFamily(
            "agentjobs_slots", "Slots of this worker: free, or busy with a job.", labels=("state",)
        )
        slots.add_metric(("free",), worker.slots - worker.busy_slots)
        slots.add_metric(("busy",), worker.busy_slots)
        yield slots
        yield CounterMetricFamily(
            "agentjobs_lease_renewals_failed",
            "Attempts of this worker to renew its leases that failed; it tries again.",
            value=worker.failed_renewals,
        )
        yield CounterMetricFamily(
            "agentjobs_leases_lost",
            "Jobs whose lease this worker lost; another worker runs them.",
            value=worker.lost_leases,
        )

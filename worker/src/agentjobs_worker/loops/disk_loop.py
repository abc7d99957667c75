"""Watches free disk space: empties caches when it is low and keeps a reserve for the database."""

import asyncio
import logging

from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.loop import PeriodicLoop
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.workspace.checkout import Workspaces

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 2.0


def reserve_loop(free_space: FreeSpace) -> PeriodicLoop:
    async def keep_reserve() -> None:
        await asyncio.to_thread(free_space.keep_reserve)

    return PeriodicLoop("disk reserve", _INTERVAL_SECONDS, keep_reserve)


def disk_loop(free_space: FreeSpace, worker: WorkerInfo, workspaces: Workspaces) -> PeriodicLoop:
    """The worker's heartbeat stores whether its disk is full."""

    async def check() -> None:
        if free_space.is_low:
            await workspaces.empty_cache()
        is_full = free_space.is_low
        if is_full and not worker.is_disk_full:
            _log.warning("the disk is nearly full: this worker starts no jobs")
        worker.is_disk_full = is_full
        worker.disk_space = free_space.measure()

    return PeriodicLoop("disk", _INTERVAL_SECONDS, check)

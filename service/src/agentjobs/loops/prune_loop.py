"""Deletes data after its retention period, in batches small enough not to delay other writers.

One process of the fleet prunes at a time, and none while the clocks of its machine and of the
database differ by too much.
"""

from agentjobs.fleet.processes import delete_silent_processes
from agentjobs.jobs.queue.environment_holds import prune_holds
from agentjobs.jobs.queue.kept_work import fail_expired_work
from agentjobs.jobs.queue.leases import delete_silent_workers
from agentjobs.jobs.queue.platform_outages import prune_outages
from agentjobs.jobs.queue.retention import prune
from agentjobs.loops.role_loop import RoleLoop
from agentjobs.organizations.retention import prune_sign_ins
from agentjobs.platform_sync.hook_events import prune_hook_events
from agentjobs.pulls.viewed_files import prune_views
from agentjobs.store.database import Database
from agentjobs.store.database_clock import pruning_time_ms
from agentjobs.webhooks.retention import prune_deliveries
from agentjobs_runtime.settings import Settings

_EVERY_SECONDS = 600.0
_SILENT_WORKER_MS = 3_600_000


def prune_loop(db: Database, settings: Settings) -> RoleLoop:
    async def once() -> None:
        now = await pruning_time_ms(db)
        if now is None:
            return
        await prune(
            db, now, log_days=settings.log_retention_days, job_days=settings.job_retention_days
        )
        await prune_deliveries(db, settings.delivery_retention_days, now)
        await prune_outages(db)
        await prune_holds(db)
        while await fail_expired_work(db):
            pass
        await delete_silent_workers(db, _SILENT_WORKER_MS)
        await delete_silent_processes(db)
        while await prune_hook_events(db, now):
            pass
        while await prune_views(db, now):
            pass
        while await prune_sign_ins(
            db,
            now,
            idle_hours=settings.session_idle_hours,
            session_days=settings.session_days,
        ):
            pass

    return RoleLoop(db, "prune", _EVERY_SECONDS, once, first_after_seconds=10)

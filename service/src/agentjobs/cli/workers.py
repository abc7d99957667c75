"""`agentjobs workers`: the workers of this service."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.output import Answer, Table
from agentjobs.cli.store_command import store_command
from agentjobs_runtime.clock import iso_utc

if TYPE_CHECKING:
    from agentjobs.jobs.operations.workers import WorkerView

workers = typer.Typer(no_args_is_help=True, help="List, drain and remove workers.")

WorkerName = Annotated[str, typer.Argument(metavar="WORKER", help="Its ID, or its host.")]

_POLL_SECONDS = 0.5


@workers.command("list")
@store_command
async def list_workers(admin: Admin) -> Table:
    """List workers with their state, version, tags, slots and heartbeat."""
    from agentjobs.jobs.operations.workers import list_worker_views

    views = await list_worker_views(admin.db, admin.settings)
    return Table(
        {"workers": [_document(view) for view in views]},
        ("worker", "host", "state", "jobs", "slots", "tags", "heartbeat", "version", "config"),
        [
            (
                view.id,
                view.hostname,
                view.status,
                view.running_jobs,
                view.slots,
                ",".join(view.tags) or None,
                f"{view.heartbeat_age_ms / 1_000:.0f} s ago",
                view.version,
                f"{view.configuration_digest}{' (differs)' if view.has_odd_configuration else ''}",
            )
            for view in views
        ],
    )


@workers.command("drain")
@store_command
async def drain_worker(
    admin: Admin,
    name: WorkerName,
    undo: Annotated[bool, typer.Option("--undo", help="Let it claim jobs again.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its jobs are done.")] = False,
) -> Answer:
    """Let a worker finish its jobs and claim no more; it stays alive."""
    from agentjobs.jobs.operations import workers

    change = workers.resume_worker if undo else workers.drain_worker
    view = await change(admin.db, admin.settings, name)
    while wait and not undo and view.status == "draining":
        await asyncio.sleep(_POLL_SECONDS)
        view = await workers.find_worker(admin.db, admin.settings, view.id)
    note = f"{view.hostname} is {view.status}, with {view.running_jobs} running jobs."
    return Answer(_document(view), [view.id], [note])


@workers.command("remove")
@store_command
async def remove_worker(admin: Admin, name: WorkerName) -> Answer:
    """Remove a worker that is silent and requeue its jobs now."""
    from agentjobs.jobs.operations.workers import remove_worker

    view, requeued = await remove_worker(admin.db, admin.settings, name)
    document = {"id": view.id, "hostname": view.hostname, "requeued_jobs": requeued}
    note = f"Removed {view.hostname}; {requeued} jobs are released for other workers."
    return Answer(document, [view.id], [note])


def _document(view: "WorkerView") -> dict[str, Any]:
    import msgspec

    return {
        **msgspec.structs.asdict(view),
        "started_at": iso_utc(view.started_at),
        "heartbeat_at": iso_utc(view.heartbeat_at),
    }

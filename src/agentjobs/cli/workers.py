"""`agentjobs workers`: the workers of this service."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs.jobs.workers import WorkerView

workers = typer.Typer(no_args_is_help=True, help="List, drain and remove workers.")

WorkerName = Annotated[str, typer.Argument(metavar="WORKER", help="Its ID, or its host.")]

_POLL_SECONDS = 0.5


@workers.command("list")
def list_workers(data_dir: DataDir = None, json: Json = False) -> None:
    """List workers with their state, version, tags, slots and heartbeat."""

    async def work(admin: Admin) -> "list[WorkerView]":
        from agentjobs.jobs.workers import list_worker_views

        return await list_worker_views(admin.db, admin.settings)

    views = with_store(data_dir, work)
    if json:
        print_json({"workers": [_document(view) for view in views]})
        return
    print_table(
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
def drain_worker(
    name: WorkerName,
    undo: Annotated[bool, typer.Option("--undo", help="Let it claim jobs again.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its jobs are done.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Let a worker finish its jobs and claim no more; it stays alive."""

    async def work(admin: Admin) -> "WorkerView":
        from agentjobs.jobs import workers

        if undo:
            return await workers.resume_worker(admin.db, admin.settings, name)
        view = await workers.drain_worker(admin.db, admin.settings, name)
        while wait and view.status == "draining":
            await asyncio.sleep(_POLL_SECONDS)
            view = await workers.find_worker(admin.db, admin.settings, view.id)
        return view

    view = with_store(data_dir, work)
    if json:
        print_json(_document(view))
        return
    print_result(view.id)
    print_note(f"{view.hostname} is {view.status}, with {view.running_jobs} running jobs.")


@workers.command("remove")
def remove_worker(name: WorkerName, data_dir: DataDir = None, json: Json = False) -> None:
    """Remove a worker that is silent and requeue its jobs now."""

    async def work(admin: Admin) -> "tuple[WorkerView, int]":
        from agentjobs.jobs.workers import remove_worker

        return await remove_worker(admin.db, admin.settings, name)

    view, requeued = with_store(data_dir, work)
    if json:
        print_json({"id": view.id, "hostname": view.hostname, "requeued_jobs": requeued})
        return
    print_result(view.id)
    print_note(f"Removed {view.hostname}; {requeued} jobs are released for other workers.")


def _document(view: "WorkerView") -> dict[str, Any]:
    import msgspec

    from agentjobs.clock import iso_utc

    return {
        **msgspec.structs.asdict(view),
        "started_at": iso_utc(view.started_at),
        "heartbeat_at": iso_utc(view.heartbeat_at),
    }

"""/operator/service: pause, processes with their versions and disks, and the database."""

from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.fleet.processes import (
    SILENT_MS,
    ProcessInfo,
    list_processes,
    odd_configurations,
    running_configurations,
)
from agentjobs.jobs.operations.workers import WorkerView, list_worker_views
from agentjobs.organizations.pauses import load_pauses, pause, resume
from agentjobs.store.database_facts import read_database_facts
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.settings.digest import short_digest

_PATH = "/operator/service"
_DISK_FIELDS = ("disk_free_bytes", "disk_total_bytes")


class _Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process with an API, or a worker."""

    id: str
    role: str
    hostname: str
    version: str
    digest: str
    is_silent: bool
    is_odd: bool
    problem: str
    heartbeat_at: int
    started_at: int
    disk_free_bytes: int | None
    disk_total_bytes: int | None


async def pause_all(request: PageRequest) -> Response:
    await pause(request.db)
    banner = "The service is paused: running jobs continue, no new jobs start."
    return request.redirect(_PATH, banner=banner)


async def resume_all(request: PageRequest) -> Response:
    await resume(request.db)
    return request.redirect(_PATH, banner="Jobs start again.")


async def show(request: PageRequest) -> Response:
    db, settings = request.db, request.settings
    odd = {
        configuration.id for configuration in odd_configurations(await running_configurations(db))
    }
    now = await db.clock_ms()
    processes = [_process(process, now, odd) for process in await list_processes(db)]
    workers = [
        _Process(
            **_shared_fields(worker),
            role="worker",
            digest=worker.configuration_digest,
            is_silent=worker.status == "silent",
            is_odd=worker.has_odd_configuration,
            problem=worker.sandbox_problem,
        )
        for worker in await list_worker_views(db, settings)
    ]
    return await request.render(
        "operator/service.html",
        pauses=await load_pauses(db),
        processes=[*processes, *workers],
        database=await read_database_facts(db),
    )


def _process(process: ProcessInfo, now: int, odd: set[str]) -> _Process:
    return _Process(
        **_shared_fields(process),
        role=process.role,
        digest=short_digest(process.configuration_digest),
        is_silent=process.heartbeat_at <= now - SILENT_MS,
        is_odd=process.id in odd,
        problem=process.repositories_problem or "",
    )


def _shared_fields(process: ProcessInfo | WorkerView) -> dict[str, Any]:
    names = ("id", "hostname", "version", "heartbeat_at", "started_at")
    return {name: getattr(process, name) for name in (*names, *_DISK_FIELDS)}


ROUTES: Routes = [
    *live_page(_PATH, "operator", show, "operator/service_state", topics=("organizations",)),
    PageRoute("POST", f"{_PATH}/pause", "operator", pause_all),
    PageRoute("POST", f"{_PATH}/resume", "operator", resume_all),
]

"""/operator/service: pause, processes with their versions and disks, and the database."""

from starlette.responses import Response

from agentjobs.fleet.processes import (
    SILENT_MS,
    list_processes,
    odd_configurations,
    running_configurations,
)
from agentjobs.jobs.operations.workers import list_worker_views
from agentjobs.organizations.pauses import load_pauses, pause, resume
from agentjobs.store.database_facts import read_database_facts
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.settings.digest import short_digest

_PATH = "/operator/service"


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
    return await request.render(
        "operator/service.html",
        pauses=await load_pauses(db),
        processes=await list_processes(db),
        workers=await list_worker_views(db, settings),
        odd=odd,
        silent_since=await db.clock_ms() - SILENT_MS,
        short_digest=short_digest,
        database=await read_database_facts(db),
    )


ROUTES: Routes = [
    *live_page(_PATH, "operator", show, "operator/service_state", topics=("organizations",)),
    PageRoute("POST", f"{_PATH}/pause", "operator", pause_all),
    PageRoute("POST", f"{_PATH}/resume", "operator", resume_all),
]

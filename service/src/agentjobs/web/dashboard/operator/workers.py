"""/operator/workers: the workers of the service; draining and removing them."""

from starlette.responses import Response

from agentjobs.jobs.operations.workers import (
    drain_worker,
    list_worker_views,
    remove_worker,
    resume_worker,
)
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PATH = "/operator/workers"
# The tone of each state's badge.
_TONES = {
    "ready": "good",
    "unready": "bad",
    "draining": "warn",
    "drained": "warn",
    "silent": "bad",
}


async def drain(request: PageRequest) -> Response:
    worker = await drain_worker(request.db, request.settings, await _worker_id(request))
    banner = f"{worker.hostname} finishes its jobs and claims no more."
    return request.redirect(_PATH, banner=banner)


async def resume(request: PageRequest) -> Response:
    worker = await resume_worker(request.db, request.settings, await _worker_id(request))
    return request.redirect(_PATH, banner=f"{worker.hostname} claims jobs again.")


async def remove(request: PageRequest) -> Response:
    worker_id = await _worker_id(request)
    worker, requeued = await remove_worker(request.db, request.settings, worker_id)
    banner = f"{worker.hostname} was removed. Jobs that were requeued: {requeued}."
    return request.redirect(_PATH, banner=banner)


async def redirect_from_settings(request: PageRequest) -> Response:
    """Where the page was before."""
    return request.redirect(_PATH)


async def _worker_id(request: PageRequest) -> str:
    """Finds a worker by ID: a host may have several workers."""
    worker_id = request.path_param("id")
    workers = await list_worker_views(request.db, request.settings)
    if worker_id not in {worker.id for worker in workers}:
        raise Problem("not_found", "There is no such worker; it may have stopped.")
    return worker_id


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    workers = await list_worker_views(request.db, request.settings)
    return await request.render(
        "operator/workers.html", problem=problem, workers=workers, tones=_TONES
    )


ROUTES: Routes = [
    *live_page(_PATH, "operator", show, "operator/worker_rows", topics=("jobs",)),
    PageRoute("POST", f"{_PATH}/{{id}}/drain", "operator", drain),
    PageRoute("POST", f"{_PATH}/{{id}}/resume", "operator", resume),
    PageRoute("POST", f"{_PATH}/{{id}}/remove", "operator", remove, problem_page=show),
    PageRoute("GET", "/settings/workers", "operator", redirect_from_settings),
]

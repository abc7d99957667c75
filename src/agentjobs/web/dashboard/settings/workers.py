"""Settings > Workers: the workers of the whole service, for its operators."""

from starlette.responses import Response

from agentjobs.jobs.workers import list_worker_views
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

# The tone of each state's badge.
_TONES = {
    "ready": "good",
    "unready": "bad",
    "draining": "warn",
    "drained": "warn",
    "silent": "bad",
}


async def show(request: PageRequest) -> Response:
    workers = []
    if request.is_operator:
        workers = await list_worker_views(request.db, request.settings)
    return await request.render("settings/workers.html", workers=workers, tones=_TONES)


ROUTES: Routes = [PageRoute("GET", "/settings/workers", "admin", show)]

"""/operator/queues: which jobs wait, by organization, agent and reason."""

from starlette.responses import Response

from agentjobs.jobs.views.service_queue import list_waiting
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.request_context import PageRequest

_PATH = "/operator/queues"
# The tone of the badge, and the words.
_REASONS = {
    "next": ("info", "Waits for a free slot"),
    "paused": ("warn", "Paused"),
    "plan_limit": ("warn", "Limit of the plan"),
    "repo_limit": ("warn", "Limit of the repository"),
    "agent_limit": ("warn", "Limit of the agent"),
    "unreachable": ("bad", "Platform or tracker does not respond"),
    "environment_building": ("info", "Environment is being built"),
    "no_worker": ("bad", "No worker can run the job"),
    "disk_full": ("bad", "Disks of workers are nearly full"),
}


async def show(request: PageRequest) -> Response:
    waiting = await list_waiting(request.context.jobs)
    groups = waiting.groups
    fleet = await request.context.jobs.fleet.state()
    return await request.render(
        "operator/queues.html",
        groups=groups,
        reasons=_REASONS,
        waiting=sum(group.jobs for group in groups),
        running=len(fleet.queue.running),
        slots=sum(worker.slots for worker in fleet.workers),
        oldest_at=min((group.oldest_at for group in groups), default=None),
        is_cut=waiting.is_cut,
    )


ROUTES: Routes = [
    *live_page(_PATH, "operator", show, "operator/queue_rows", topics=("jobs",)),
]

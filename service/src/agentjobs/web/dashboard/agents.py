"""/agents: the agents, the plans and workers they run on, and their recent results."""

from starlette.responses import Response

from agentjobs.jobs.operations.workers import WorkerView, list_worker_views
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.clock import DAY_MS

_RECENT_DAYS = 30


async def show(request: PageRequest) -> Response:
    now = await request.db.clock_ms()
    views = await list_worker_views(request.db, request.settings)
    workers = [worker for worker in views if worker.status != "silent"]
    records = await request.context.statistics.agent_records(
        request.organization_id, now - _RECENT_DAYS * DAY_MS
    )
    agents = sorted(request.context.catalog.all(), key=lambda agent: agent.id)
    return await request.render(
        "agents.html",
        agents=[
            {
                "agent": agent,
                "is_allowed": request.context.plans.allows(
                    request.viewer.plan, agent.plan_required
                ),
                "ready_on": [worker for worker in workers if agent.id in worker.agents],
                "reasons": _reasons(agent, workers, show_hosts=request.may("admin")),
                "record": records.get(agent.id),
            }
            for agent in agents
        ],
        workers=workers,
        days=_RECENT_DAYS,
    )


def _reasons(agent: Agent, workers: list[WorkerView], *, show_hosts: bool) -> list[str]:
    """Why workers cannot run the agent, without duplicates. Only admins see host names."""
    return list(
        dict.fromkeys(
            f"{worker.hostname}: {reason}" if show_hosts else reason
            for worker in workers
            if (reason := worker.unready.get(agent.id)) is not None
        )
    )


ROUTES: Routes = [PageRoute("GET", "/agents", "viewer", show)]

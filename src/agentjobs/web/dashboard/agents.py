"""/agents: who can be sent to work: on which plan, on which workers, and how it went lately."""

from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.clock import DAY_MS, now_ms
from agentjobs.jobs.queue.leases import WorkerCard, list_workers
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

_SPAN_DAYS = 30
# A worker beats every few seconds; what was silent for longer is gone or in trouble.
_BEATS_MISSED = 1.5


async def show(request: PageRequest) -> Response:
    now = now_ms()
    silent_ms = int(request.settings.lease_seconds * _BEATS_MISSED * 1_000)
    workers = [worker for worker, beat in await list_workers(request.db) if beat > now - silent_ms]
    records = await request.context.statistics.agent_records(
        request.organization_id, now - _SPAN_DAYS * DAY_MS
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
                "why_not": _reasons(agent, workers, names_hosts=request.may("admin")),
                "record": records.get(agent.id),
            }
            for agent in agents
        ],
        workers=workers,
        days=_SPAN_DAYS,
    )


def _reasons(agent: Agent, workers: list[WorkerCard], *, names_hosts: bool) -> list[str]:
    """What those that cannot run it say about that, each once. Machines are named to admins."""
    return list(
        dict.fromkeys(
            f"{worker.hostname}: {reason}" if names_hosts else reason
            for worker in workers
            if (reason := worker.unready.get(agent.id)) is not None
        )
    )


ROUTES: Routes = [PageRoute("GET", "/agents", "viewer", show)]

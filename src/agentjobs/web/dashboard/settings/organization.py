"""Settings, organization: what it is called, what its plan allows, where it is reached, and which
vulnerabilities start jobs. Plans are the operator's. Also the door to all settings."""

import msgspec
from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.repos.thresholds import organization_threshold, set_organization_threshold
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.repos.threshold_text import OFF, organization_options
from agentjobs.web.dashboard.request_context import Visit

_PATH = "/settings/organization"


class _Offer(msgspec.Struct, frozen=True):
    agent: Agent
    is_available: bool


async def enter(visit: Visit) -> Response:
    """The first page that the role may see."""
    first = "/settings/api-keys" if visit.may("admin") else "/settings/webhooks"
    return visit.redirect(first)


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def set_threshold(visit: Visit) -> Response:
    try:
        await set_organization_threshold(visit.db, visit.organization, visit.form.text("level"))
    except Problem as problem:
        return await _page(visit, problem)
    return visit.redirect(
        _PATH, said="It is saved. Repositories that say nothing themselves keep to it."
    )


async def _page(visit: Visit, problem: Problem | None = None) -> Response:
    organization = await find_organization(visit.db, visit.organization)
    plans, settings = visit.context.plans, visit.settings
    agents = sorted(visit.context.catalog.all(), key=lambda agent: agent.name.lower())
    address = settings.effective_public_url
    return await visit.page(
        "settings/organization.html",
        problem=problem,
        threshold=await organization_threshold(visit.db, visit.organization_id) or OFF,
        threshold_options=organization_options(),
        organization=organization,
        concurrent_jobs=plans.concurrent_jobs(organization.plan),
        other_plans=[plan for plan in plans.names if plan != organization.plan],
        queue_limit=settings.queue_limit,
        offers=[
            _Offer(agent, plans.allows(organization.plan, agent.plan_required)) for agent in agents
        ],
        public_url=address,
        git_url=f"{address}/git/{organization.name}/OWNER/NAME.git",
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/settings", "member", enter),
    Place("GET", _PATH, "member", show),
    Place("POST", f"{_PATH}/auto-trigger", "admin", set_threshold),
]

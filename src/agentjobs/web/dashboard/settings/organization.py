"""Settings, organization: what it is called, what its plan allows, where it is reached. Reads only:
plans are the operator's. Also the door to all settings."""

import msgspec
from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.organizations.organizations import find_organization
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.visits import Visit


class _Offer(msgspec.Struct, frozen=True):
    agent: Agent
    is_available: bool


async def enter(visit: Visit) -> Response:
    """The first page that the role may see."""
    first = "/settings/api-keys" if visit.may("admin") else "/settings/webhooks"
    return visit.redirect(first)


async def show(visit: Visit) -> Response:
    organization = await find_organization(visit.db, visit.organization)
    plans, settings = visit.context.plans, visit.settings
    agents = sorted(visit.context.catalog.all(), key=lambda agent: agent.name.lower())
    address = settings.effective_public_url
    return await visit.page(
        "settings/organization.html",
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
    Place("GET", "/settings/organization", "member", show),
]

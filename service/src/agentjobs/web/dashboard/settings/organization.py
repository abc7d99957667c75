"""Settings > Organization: name, plan, addresses and the severity threshold for automatic jobs.

Also redirects /settings to the first settings page."""

from starlette.responses import Response

from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.thresholds import load_organization_threshold, set_organization_threshold
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repos.threshold_text import OFF, organization_options
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PATH = "/settings/organization"


async def redirect_to_first_page(request: PageRequest) -> Response:
    """Redirects to the first page the role allows."""
    first = "/settings/api-keys" if request.may("admin") else "/settings/webhooks"
    return request.redirect(first)


async def set_threshold(request: PageRequest) -> Response:
    level = request.form.text("level")
    await set_organization_threshold(request.db, request.organization, level)
    return request.redirect(
        _PATH, banner="Saved. This applies to repositories that do not override it."
    )


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    organization = await find_organization(request.db, request.organization)
    plans, settings = request.context.plans, request.settings
    agents = sorted(request.context.catalog.all(), key=lambda agent: agent.name.lower())
    address = settings.effective_public_url
    return await request.render(
        "settings/organization.html",
        problem=problem,
        threshold=await load_organization_threshold(request.db, request.organization_id) or OFF,
        threshold_options=organization_options(),
        organization=organization,
        concurrent_jobs=plans.concurrent_jobs(organization.plan),
        other_plans=[plan for plan in plans.names if plan != organization.plan],
        queue_limit=settings.queue_limit,
        agents=agents,
        allows=plans.allows,
        public_url=address,
        git_url=f"{address}/git/{organization.name}/OWNER/NAME.git",
    )


ROUTES: Routes = [
    PageRoute("GET", "/settings", "member", redirect_to_first_page),
    PageRoute("GET", _PATH, "member", show),
    PageRoute("POST", f"{_PATH}/auto-trigger", "admin", set_threshold, problem_page=show),
]

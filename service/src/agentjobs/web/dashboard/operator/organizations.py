"""/operator: the organizations of the service with what they use, and their plans and limits.

Shows counts and amounts only; what an organization works on stays with its members.
"""

from starlette.responses import Response

from agentjobs.jobs.views.organization_lines import (
    Order,
    find_organization_line,
    list_organization_lines,
)
from agentjobs.organizations.budgets import set_budget
from agentjobs.organizations.organizations import set_plan
from agentjobs.organizations.pauses import pause, resume
from agentjobs.web.dashboard.list_query import ListQuery, PageNumber
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.budgets import SAVED, read_limits, shown_limits
from agentjobs_runtime.problems import Problem

PATH = "/operator"

_PAGE = 50
_ORDERS: dict[Order, str] = {
    "name": "Name",
    "waiting": "Most waiting jobs",
    "running": "Most running jobs",
    "spending": "Highest spending",
    "newest": "Newest",
}


class _Query(ListQuery, frozen=True, kw_only=True):
    q: str = ""
    order: Order = "name"
    page: PageNumber = 1


async def change_plan(request: PageRequest) -> Response:
    name, plan = await _name(request), request.form.text("plan")
    await set_plan(request.db, request.context.plans, name, plan)
    return _redirect(request, name, f"{name} is on the plan {plan} now.")


async def change_budget(request: PageRequest) -> Response:
    name = await _name(request)
    await set_budget(request.db, name, **read_limits(request.form))
    return _redirect(request, name, SAVED)


async def pause_one(request: PageRequest) -> Response:
    name = await _name(request)
    await pause(request.db, name)
    return _redirect(request, name, f"{name} is paused: running jobs continue, no new jobs start.")


async def resume_one(request: PageRequest) -> Response:
    name = await _name(request)
    await resume(request.db, name)
    return _redirect(request, name, f"Jobs of {name} start again.")


async def show_one(request: PageRequest, problem: Problem | None = None) -> Response:
    line = await find_organization_line(request.db, request.path_param("name"))
    plans = request.context.plans
    return await request.render(
        "operator/organization.html",
        problem=problem,
        organization=line,
        plans=_plan_options(request, line.plan),
        concurrent_jobs=plans.concurrent_jobs(line.plan),
        queue_limit=request.settings.queue_limit,
        limits=shown_limits(request.form, line.daily_budget_nanousd, line.job_budget_nanousd),
    )


def _plan_options(request: PageRequest, current: str) -> list[tuple[str, str]]:
    plans = request.context.plans
    options = [
        (name, f"{name} (concurrent jobs: {plans.concurrent_jobs(name)})") for name in plans.names
    ]
    if current not in plans.names:
        options.append((current, f"{current} (no longer in the settings, counts as the lowest)"))
    return options


async def _name(request: PageRequest) -> str:
    """Raises `not_found` if there is no such organization."""
    return (await find_organization_line(request.db, request.path_param("name"))).name


def _redirect(request: PageRequest, name: str, banner: str) -> Response:
    return request.redirect(f"{PATH}/organizations/{name}", banner=banner)


async def show(request: PageRequest) -> Response:
    query = _Query.read(request.query_param)
    lines = await list_organization_lines(
        request.db,
        search=query.q,
        order=query.order,
        limit=_PAGE + 1,
        offset=(query.page - 1) * _PAGE,
    )
    page_url = request.settings.public_path + PATH
    return await request.render(
        "operator/organizations.html",
        orders=list(_ORDERS.items()),
        query=query,
        lines=lines[:_PAGE],
        next_page=query.address(page_url, page=query.page + 1) if len(lines) > _PAGE else None,
        first_page=query.address(page_url, page=1) if query.page > 1 else None,
    )


_ONE = f"{PATH}/organizations/{{name}}"
ROUTES: Routes = [
    *live_page(
        PATH, "operator", show, "operator/organization_rows", topics=("jobs", "organizations")
    ),
    PageRoute("GET", _ONE, "operator", show_one),
    PageRoute("POST", f"{_ONE}/plan", "operator", change_plan, problem_page=show_one),
    PageRoute("POST", f"{_ONE}/budget", "operator", change_budget, problem_page=show_one),
    PageRoute("POST", f"{_ONE}/pause", "operator", pause_one),
    PageRoute("POST", f"{_ONE}/resume", "operator", resume_one),
]

"""/jobs: searching and filtering jobs, newest first."""

from datetime import tzinfo
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.states import STATUSES, JobStatus
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import JobPage, list_lines
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

_PER_PAGE = 50


class _Query(ListQuery, frozen=True, kw_only=True):
    q: str = ""
    status: JobStatus | None = None
    repo: str = ""
    agent: str = ""
    ticket: str = ""
    label: str = ""
    since: str = ""
    until: str = ""
    before: Annotated[str, Meta(pattern="^job_[0-9a-z]{26}$")] = ""


async def show(request: PageRequest) -> Response:
    query, problem = _Query.read(request.query_param), None
    page_url = f"{request.settings.public_path}/jobs"
    try:
        page = await list_lines(
            request.db,
            request.organization_id,
            _filter(query, request.zone),
            limit=_PER_PAGE,
            before=query.before or None,
        )
    except Problem as error:
        page, problem = JobPage([], None, None), error
    repo_choice = await load_repo_choice(request, query.repo)
    agents = sorted(agent.id for agent in request.context.catalog.all())
    return await request.render(
        "jobs/list.html",
        problem=problem,
        page=page,
        now=now_ms(),
        query=query,
        older=query.address(page_url, before=page.next_before) if page.next_before else "",
        newest=query.address(page_url, before="") if query.before else "",
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        repo_choice=repo_choice,
        agent_options=[("", "any"), *((agent, agent) for agent in agents)],
        has_repos=repo_choice.has_repos,
    )


def _filter(query: _Query, zone: tzinfo) -> JobFilter:
    """Raises Problem for an invalid date or label."""
    since, until = between_days(query.since, query.until, zone)
    return JobFilter(
        status=query.status,
        repo=query.repo or None,
        agent=query.agent or None,
        ticket=query.ticket or None,
        labels=_labels(query.label),
        since=since,
        until=until,
        text=query.q or None,
    )


def _labels(text: str) -> dict[str, str]:
    if not text:
        return {}
    key, separator, value = text.partition("=")
    if not separator:
        raise Problem("bad_request", "Label: enter a key and a value, such as team=payments.")
    return {key.strip(): value.strip()}


ROUTES: Routes = live_page("/jobs", "viewer", show, "jobs/rows")

"""/jobs: searching and filtering jobs, newest first."""

import re
from datetime import tzinfo
from typing import Any

from starlette.responses import Response

from agentjobs.jobs.states import STATUSES
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import JobPage, list_lines
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.live import live
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

_PER_PAGE = 50
_FIELDS = ("q", "status", "repo", "agent", "ticket", "label", "since", "until")
# The longest label, its key included, has 319.
_MAX_CHARACTERS = 320
_JOB_ID = re.compile("job_[0-9a-z]{26}")


async def show(request: PageRequest) -> Response:
    filters, problem = _read_filters(request), None
    try:
        page = await _page(request, _filter(filters, request.zone))
    except Problem as error:
        page, problem = JobPage([], None, None), error
    repo_choice = await load_repo_choice(request, filters["repo"])
    agents = sorted(agent.id for agent in request.context.catalog.all())
    return await request.render(
        "jobs/list.html",
        problem=problem,
        page=page,
        **_links(request, filters, page),
        filters=filters,
        is_filtered=any(filters.values()),
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        repo_choice=repo_choice,
        agent_options=[("", "any"), *((agent, agent) for agent in agents)],
        has_repos=repo_choice.has_repos,
    )


async def _page(request: PageRequest, job_filter: JobFilter) -> JobPage:
    before = request.query_param("before")
    return await list_lines(
        request.db,
        request.organization_id,
        job_filter,
        limit=_PER_PAGE,
        before=before if _JOB_ID.fullmatch(before) else None,
    )


def _filter(filters: dict[str, str], zone: tzinfo) -> JobFilter:
    """Raises Problem for an invalid date or label."""
    since, until = between_days(filters["since"], filters["until"], zone)
    return JobFilter(
        status=next((status for status in STATUSES if status == filters["status"]), None),
        repo=filters["repo"] or None,
        agent=filters["agent"] or None,
        ticket=filters["ticket"] or None,
        labels=_labels(filters["label"].strip()),
        since=since,
        until=until,
        text=filters["q"] or None,
    )


def _labels(text: str) -> dict[str, str]:
    if not text:
        return {}
    key, separator, value = text.partition("=")
    if not separator:
        raise Problem("bad_request", "Label: enter a key and a value, such as team=payments.")
    return {key.strip(): value.strip()}


def _read_filters(request: PageRequest) -> dict[str, str]:
    return {name: request.query_param(name)[:_MAX_CHARACTERS] for name in _FIELDS}


def _links(request: PageRequest, filters: dict[str, str], page: JobPage) -> dict[str, Any]:
    before, last = request.query_param("before"), page.next_before
    return {
        "older": request.address("/jobs", {**filters, "before": last}) if last else "",
        "newest": request.address("/jobs", filters) if before else "",
        "now": now_ms(),
    }


ROUTES: Routes = [
    PageRoute("GET", "/jobs", "viewer", show),
    PageRoute("GET", "/jobs/stream", "viewer", live(show, "jobs/rows")),
]

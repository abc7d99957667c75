"""/search: pages, repositories, jobs, pull requests and vulnerabilities by a part of their name."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import list_findings
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.pulls.pulls import list_pulls
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.navigation import OPERATOR, OTHERS, SECTIONS, SETTINGS
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

_MAX_LENGTH = 200
_PER_GROUP = 6


class Result(msgspec.Struct, frozen=True):
    """`path` is that of a page of the dashboard."""

    path: str
    title: str
    note: str = ""
    status: str = ""


class Group(msgspec.Struct, frozen=True):
    name: str
    results: Sequence[Result]


async def show(request: PageRequest) -> Response:
    query = request.query_param("q")[:_MAX_LENGTH]
    groups = await _find(request, query)
    if request.http.headers.get("x-part"):
        html = await request.fragment("search/results.html", query=query, groups=groups)
        return request.part(html)
    return await request.render("search/page.html", query=query, groups=groups)


async def _find(request: PageRequest, query: str) -> list[Group]:
    """Finds only pages if there is no query."""
    groups = [Group("Pages", _pages(request, query))]
    if query:
        groups += [
            Group("Repositories", await _repos(request, query)),
            Group("Pull requests", await _pulls(request, query)),
            Group("Jobs", await _jobs(request, query)),
            Group("Vulnerabilities", await _vulnerabilities(request, query)),
        ]
    return [group for group in groups if group.results]


def _pages(request: PageRequest, query: str) -> list[Result]:
    return [
        Result(link.path, link.name)
        for link in (*SECTIONS, *OTHERS, *SETTINGS, *OPERATOR)
        if query.casefold() in link.name.casefold()
        if request.may(link.role)
    ]


async def _repos(request: PageRequest, query: str) -> list[Result]:
    repos = await list_repos(request.db, request.organization_id, search=query, limit=_PER_GROUP)
    return [
        Result(f"/repos/{repo.full_name}", repo.full_name, "", repo.index_status) for repo in repos
    ]


async def _pulls(request: PageRequest, query: str) -> list[Result]:
    pulls = await list_pulls(request.db, request.organization, search=query, limit=_PER_GROUP)
    return [
        Result(pull.path, pull.title, f"{pull.repo}#{pull.number}", pull.state) for pull in pulls
    ]


async def _jobs(request: PageRequest, query: str) -> list[Result]:
    page = await list_lines(
        request.db, request.organization_id, JobFilter(text=query), limit=_PER_GROUP
    )
    return [
        Result(f"/jobs/{line.job_id}", line.shown_title, line.subtitle, line.status)
        for line in page.lines
    ]


async def _vulnerabilities(request: PageRequest, query: str) -> list[Result]:
    findings = await list_findings(
        request.db, request.organization_id, FindingFilter(search=query), limit=_PER_GROUP
    )
    results: dict[str, Result] = {}
    for finding in findings:
        note = f"{finding.name} in {finding.repo}: {finding.summary}"
        path = f"/vulnerabilities/{finding.advisory_id}"
        results.setdefault(path, Result(path, finding.advisory_id, note))
    return list(results.values())


ROUTES: Routes = [PageRoute("GET", "/search", "viewer", show)]

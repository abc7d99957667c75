"""/vulnerabilities: vulnerable packages, or findings, of all repositories, most severe first."""

from collections.abc import Sequence

from starlette.responses import Response

from agentjobs.advisories.feeds import list_feeds
from agentjobs.advisories.findings import count_findings, list_findings
from agentjobs.advisories.lookup import find_vulnerability
from agentjobs.advisories.packages import list_packages
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import feed_state
from agentjobs.web.dashboard.vulnerabilities.lines import (
    LIVE_TOPICS,
    Line,
    PackageLine,
    load_lines,
    load_package_lines,
)
from agentjobs.web.dashboard.vulnerabilities.package_filters import FILES_OPTIONS, IMPORTED_OPTIONS
from agentjobs.web.dashboard.vulnerabilities.query import (
    PATH,
    STATE_OPTIONS,
    Query,
)
from agentjobs_dependencies.advisories.severity import LEVELS, format_level

_PER_PAGE = 50


async def show(request: PageRequest) -> Response:
    query = Query.read(request.query_param)
    repo_choice = await load_repo_choice(request, query.repo)
    page_url = request.settings.public_path + PATH
    repo_id = None if repo_choice.repo is None else repo_choice.repo.id
    counts = await count_findings(request.db, request.organization_id, repo_id=repo_id)
    lines, last = await _lines(request, query, repo_id, is_empty=bool(query.repo and not repo_id))
    return await request.render(
        "vulnerabilities/list.html",
        query=query,
        lines=lines,
        known_advisory="" if lines or query.after else await _known_advisory(request, query.q),
        counts=[
            (
                level,
                count,
                query.address(
                    page_url, severity=level, q="", files="", imported="", state="", after=""
                ),
            )
            for level, count in counts.by_severity.items()
        ],
        total=counts.total,
        fixture_total=counts.fixtures,
        decided_total=counts.decided,
        decided=query.address(page_url, state="dismissed", q="", severity="", after=""),
        fixtures=query.address(page_url, files="fixtures", q="", severity="", after=""),
        feeds=feed_state(request.settings, await list_feeds(request.db)),
        repo_choice=repo_choice,
        has_repos=repo_choice.has_repos,
        is_of_repo=repo_id is not None,
        is_fixable=repo_id is not None and any(line.is_waiting for line in lines),
        next=query.address(page_url, after=last) if last else "",
        first=query.address(page_url, after="") if query.after else "",
        files_options=FILES_OPTIONS,
        state_options=STATE_OPTIONS,
        imported_options=IMPORTED_OPTIONS,
        severity_options=[("", "any"), *((level, format_level(level)) for level in LEVELS[::-1])],
        groups=[
            (label, query.address(page_url, group=group, after=""), query.group == group)
            for group, label in (("", "Packages"), ("advisory", "Advisories"))
        ],
    )


async def _lines(
    request: PageRequest, query: Query, repo_id: str | None, *, is_empty: bool
) -> tuple[Sequence[Line] | Sequence[PackageLine], str]:
    """The lines of a page, and the cursor of the last one if others follow."""
    if is_empty:
        return [], ""
    owner, finding_filter = request.organization_id, query.filter(repo_id)
    limit, after = _PER_PAGE + 1, query.after or None
    if query.group:
        findings = await list_findings(request.db, owner, finding_filter, limit=limit, after=after)
        last = findings[_PER_PAGE - 1].cursor if len(findings) > _PER_PAGE else ""
        return await load_lines(request, findings[:_PER_PAGE]), last
    packages = await list_packages(request.db, owner, finding_filter, limit=limit, after=after)
    last = packages[_PER_PAGE - 1].cursor if len(packages) > _PER_PAGE else ""
    return await load_package_lines(request, packages[:_PER_PAGE]), last


async def _known_advisory(request: PageRequest, text: str) -> str:
    """The searched advisory, if it is known although no repository is affected."""
    # Also accepts lower case.
    for name in dict.fromkeys((text, text.upper())):
        if name and await find_vulnerability(request.db, name):
            return name
    return ""


ROUTES: Routes = live_page(PATH, "viewer", show, "vulnerabilities/rows", topics=LIVE_TOPICS)

"""/vulnerabilities: findings of all repositories, most severe first."""

import re
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from agentjobs.advisories.feeds import list_feeds
from agentjobs.advisories.findings import FindingView, count_findings, list_findings
from agentjobs.advisories.lookup import find_vulnerability
from agentjobs.advisories.severity import LEVELS, label_of
from agentjobs.jobs.auto_trigger_rows import TriggeredJob, jobs_for_findings
from agentjobs.jobs.proposed_fixes import ProposingPull, pulls_for_findings
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import feed_state
from agentjobs.web.dashboard.vulnerabilities.package_filters import (
    FILES,
    FILES_OPTIONS,
    IMPORTED_OPTIONS,
    read_imported,
)

PATH = "/vulnerabilities"
_PER_PAGE = 50
_is_cursor = re.compile(r"[0-9]{4}fnd_[0-9a-z]{26}").fullmatch


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters; the empty string means any."""

    q: str = ""
    severity: str = ""
    repo: str = ""
    files: str = ""
    imported: str = ""
    after: str = ""

    @property
    def is_narrowed(self) -> bool:
        fields = msgspec.structs.asdict(self)
        return any(text for name, text in fields.items() if name != "after")

    def address(self, page_url: str, **changes: str) -> str:
        fields = {**msgspec.structs.asdict(self), **changes}
        query = urlencode({name: text for name, text in fields.items() if text})
        return f"{page_url}?{query}" if query else page_url


class Line(msgspec.Struct, frozen=True):
    """`pull` is an open pull request that has the fix although no job proposed it."""

    finding: FindingView
    job: TriggeredJob | None
    pull: ProposingPull | None = None

    @property
    def is_waiting(self) -> bool:
        """A fix exists that no job and no pull request proposes. Fixtures wait for nothing."""
        is_proposed = self.job is not None or self.pull is not None
        finding = self.finding
        return finding.fix_version is not None and not is_proposed and not finding.fixture


async def show(request: PageRequest) -> Response:
    page_url = prefix_of(request.settings) + PATH
    repos = await list_repos(request.db, request.organization_id)
    query = _query(request)
    repo_id = next((repo.id for repo in repos if repo.full_name == query.repo), None)
    counts = await count_findings(request.db, request.organization_id, repo_id=repo_id)
    findings = [] if query.repo and not repo_id else await _findings(request, query, repo_id)
    shown = findings[:_PER_PAGE]
    lines = await load_lines(request, shown)
    return await request.render(
        "vulnerabilities/list.html",
        query=query,
        lines=lines,
        known_advisory="" if shown or query.after else await _known_advisory(request, query.q),
        counts=[
            (
                level,
                count,
                query.address(page_url, severity=level, q="", files="", imported="", after=""),
            )
            for level, count in counts.by_severity.items()
        ],
        total=counts.total,
        fixture_total=counts.fixtures,
        fixtures=query.address(page_url, files="fixtures", q="", severity="", after=""),
        files_options=FILES_OPTIONS,
        imported_options=IMPORTED_OPTIONS,
        feeds=feed_state(request.settings, await list_feeds(request.db)),
        has_repos=bool(repos),
        is_of_repo=repo_id is not None,
        is_fixable=repo_id is not None and any(line.is_waiting for line in lines),
        severity_options=[("", "any"), *((level, label_of(level)) for level in LEVELS[::-1])],
        repo_options=[("", "any"), *((repo.full_name, repo.full_name) for repo in repos)],
        next=query.address(page_url, after=shown[-1].cursor) if len(findings) > _PER_PAGE else "",
        first=query.address(page_url, after="") if query.after else "",
    )


async def load_lines(request: PageRequest, findings: list[FindingView]) -> list[Line]:
    jobs = await jobs_for_findings(request.db, findings)
    pulls = await pulls_for_findings(request.db, findings)
    return [Line(each, jobs.get(each.id), pulls.get(each.id)) for each in findings]


async def _findings(request: PageRequest, query: _Query, repo_id: str | None) -> list[FindingView]:
    return await list_findings(
        request.db,
        request.organization_id,
        repo_id=repo_id,
        severity=query.severity or None,
        search=query.q or None,
        fixture=FILES[query.files],
        imported=read_imported(query.imported),
        limit=_PER_PAGE + 1,
        after=query.after or None,
    )


async def _known_advisory(request: PageRequest, text: str) -> str:
    """The searched advisory, if it is known although no repository is affected."""
    # Also accepts lower case.
    for name in dict.fromkeys((text, text.upper())):
        if name and await find_vulnerability(request.db, name):
            return name
    return ""


def _query(request: PageRequest) -> _Query:
    severity, after = request.query_param("severity"), request.query_param("after")
    files = request.query_param("files")
    return _Query(
        q=request.query_param("q")[:300],
        severity=severity if severity in LEVELS else "",
        repo=request.query_param("repo")[:300],
        files=files if files in FILES else "",
        imported=read_imported(request.query_param("imported")) or "",
        after=after if _is_cursor(after) else "",
    )


ROUTES: Routes = [PageRoute("GET", PATH, "viewer", show)]

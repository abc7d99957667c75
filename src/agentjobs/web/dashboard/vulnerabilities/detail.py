"""/vulnerabilities/{advisory_id}: one vulnerability and the affected repositories."""

import msgspec
from starlette.responses import Response

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import FindingView, list_findings
from agentjobs.advisories.lookup import AffectedPackage, Vulnerability, find_vulnerability
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.lines import load_lines
from agentjobs.web.dashboard.vulnerabilities.query import PATH

_MAX_FINDINGS = 100


class _AdvisoryView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    aliases: tuple[str, ...]
    summary: str
    severity: str
    score: float | None
    severity_source: str
    published: str
    modified: str
    url: str
    packages: tuple[AffectedPackage, ...]
    omitted_packages: int


async def show(request: PageRequest) -> Response:
    name = request.path_param("advisory_id").replace("\0", "")
    vulnerability = await find_vulnerability(request.db, name)
    names = vulnerability.names if vulnerability else frozenset((name,))
    findings = await _findings(request, name, names)
    if vulnerability is None and not findings:
        raise Problem(
            "not_found",
            "No advisory with this ID is known. It may have been withdrawn, or belong to an "
            "ecosystem that is not synced.",
        )
    return await request.render(
        "vulnerabilities/detail.html",
        advisory=_vulnerability_view(vulnerability)
        if vulnerability
        else _view_of_finding(findings[0]),
        lines=await load_lines(request, findings[:_MAX_FINDINGS]),
        has_more=len(findings) > _MAX_FINDINGS,
    )


async def _findings(request: PageRequest, name: str, names: frozenset[str]) -> list[FindingView]:
    findings = await list_findings(
        request.db,
        request.organization_id,
        FindingFilter(search=name),
        limit=2 * _MAX_FINDINGS,
    )
    # The search also matches longer ids with the same prefix.
    return [each for each in findings if names & {each.advisory_id, *each.aliases}]


def _vulnerability_view(vulnerability: Vulnerability) -> _AdvisoryView:
    group, first = vulnerability.group, vulnerability.group.members[0]
    return _AdvisoryView(
        id=group.id,
        aliases=group.aliases,
        summary=group.summary,
        severity=group.severity.level,
        score=group.severity.score,
        severity_source=group.severity.source,
        published=first.published[:10],
        modified=first.modified[:10],
        url=first.url,
        packages=vulnerability.packages,
        omitted_packages=vulnerability.omitted_packages,
    )


def _view_of_finding(finding: FindingView) -> _AdvisoryView:
    """From a finding, if the advisory itself was withdrawn since."""
    return _AdvisoryView(
        id=finding.advisory_id,
        aliases=finding.aliases,
        summary=finding.summary,
        severity=finding.severity,
        score=finding.score,
        severity_source=finding.severity_source,
        published="",
        modified="",
        url=finding.advisories[0].url if finding.advisories else "",
        packages=tuple(
            AffectedPackage(
                finding.ecosystem, finding.name, advisory.ranges, advisory.fixed, advisory.id
            )
            for advisory in finding.advisories
        ),
        omitted_packages=0,
    )


ROUTES: Routes = [PageRoute("GET", f"{PATH}/{{advisory_id}}", "viewer", show)]

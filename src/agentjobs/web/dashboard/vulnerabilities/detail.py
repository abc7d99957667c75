"""/vulnerabilities/{advisory_id}: one fault, by any of its names, and who here has it."""

import msgspec
from starlette.responses import Response

from agentjobs.advisories.findings import FindingView, list_findings
from agentjobs.advisories.lookup import AffectedPackage, Fault, find_fault
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.listing import HERE, lines_of

_SHOWN = 100


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
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
    left_out: int


async def show(request: PageRequest) -> Response:
    name = request.path_param("advisory_id").replace("\0", "")
    fault = await find_fault(request.db, name)
    names = fault.names if fault else frozenset((name,))
    findings = await _findings(request, name, names)
    if fault is None and not findings:
        raise Problem(
            "not_found",
            "No advisory of this name is known here. It may have been withdrawn, or belong to an "
            "ecosystem whose advisories are not kept.",
        )
    return await request.render(
        "vulnerabilities/detail.html",
        advisory=_of_fault(fault) if fault else _of_finding(findings[0]),
        lines=await lines_of(request, findings[:_SHOWN]),
        is_more=len(findings) > _SHOWN,
    )


async def _findings(request: PageRequest, name: str, names: frozenset[str]) -> list[FindingView]:
    found = await list_findings(request.db, request.organization_id, search=name, limit=2 * _SHOWN)
    # A search also finds longer names that begin the same.
    return [one for one in found if names & {one.advisory_id, *one.aliases}]


def _of_fault(fault: Fault) -> _Shown:
    group, first = fault.group, fault.group.members[0]
    return _Shown(
        id=group.id,
        aliases=group.aliases,
        summary=group.summary,
        severity=group.severity.level,
        score=group.severity.score,
        severity_source=group.severity.source,
        published=first.published[:10],
        modified=first.modified[:10],
        url=first.url,
        packages=fault.packages,
        left_out=fault.left_out,
    )


def _of_finding(finding: FindingView) -> _Shown:
    """Of a record that is gone by now: what was written down when it was there."""
    return _Shown(
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
            AffectedPackage(finding.ecosystem, finding.name, one.ranges, one.fixed, one.id)
            for one in finding.advisories
        ),
        left_out=0,
    )


ROUTES: Routes = [PageRoute("GET", f"{HERE}/{{advisory_id}}", "viewer", show)]

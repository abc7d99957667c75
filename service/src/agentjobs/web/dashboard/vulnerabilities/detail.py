"""/vulnerabilities/{advisory_id}: one vulnerability and the affected repositories."""

import asyncio
from itertools import groupby

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import FindingView, list_findings
from agentjobs.advisories.lookup import AffectedPackage, Vulnerability, find_vulnerability
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text import markdown
from agentjobs.web.dashboard.vulnerabilities.lines import LIVE_TOPICS, load_lines
from agentjobs.web.dashboard.vulnerabilities.query import PATH
from agentjobs_dependencies.advisories.severity import describe_vector
from agentjobs_dependencies.advisories.texts import REFERENCE_LABELS
from agentjobs_runtime.problems import Problem

_MAX_FINDINGS = 100
_MAX_NAME_LENGTH = 300
_WEAKNESS_URL = "https://cwe.mitre.org/data/definitions/{}.html"


class _AdvisoryView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    aliases: tuple[str, ...]
    summary: str
    severity: str
    score: float | None
    severity_source: str
    vector: tuple[tuple[str, str], ...] = ()
    published: str
    modified: str
    url: str
    packages: tuple[AffectedPackage, ...]
    omitted_packages: int
    # Rendered Markdown.
    details: Markup = Markup("")
    # The addresses of each kind.
    references: tuple[tuple[str, tuple[str, ...]], ...] = ()
    weaknesses: tuple[tuple[str, str], ...] = ()


async def show(request: PageRequest) -> Response:
    name = _name(request)
    vulnerability = await find_vulnerability(request.db, name)
    names = vulnerability.names if vulnerability else frozenset((name,))
    findings = await _findings(request, name, names)
    if vulnerability is None and not findings:
        raise Problem(
            "not_found",
            "No advisory with this ID is known. It may have been withdrawn, or belong to an "
            "ecosystem that is not synced.",
        )
    advisory = (
        # Untrusted Markdown may take a while.
        await asyncio.to_thread(_vulnerability_view, vulnerability)
        if vulnerability
        else _view_of_finding(findings[0])
    )
    return await request.render(
        "vulnerabilities/detail.html",
        advisory=advisory,
        lines=await load_lines(request, findings[:_MAX_FINDINGS]),
        has_more=len(findings) > _MAX_FINDINGS,
        advisory_id=findings[0].advisory_id if findings else "",
    )


def _name(request: PageRequest) -> str:
    # No advisory has a longer one, and SQLite refuses to search for one.
    return request.path_param("advisory_id").replace("\0", "")[:_MAX_NAME_LENGTH]


async def _findings(request: PageRequest, name: str, names: frozenset[str]) -> list[FindingView]:
    findings = await list_findings(
        request.db,
        request.organization_id,
        FindingFilter(search=name),
        limit=2 * _MAX_FINDINGS,
    )
    # The search also matches longer ids with the same prefix.
    return [finding for finding in findings if names & {finding.advisory_id, *finding.aliases}]


def _vulnerability_view(vulnerability: Vulnerability) -> _AdvisoryView:
    group, first = vulnerability.group, vulnerability.group.members[0]
    text = vulnerability.text
    return _AdvisoryView(
        id=group.id,
        aliases=group.aliases,
        summary=group.summary,
        severity=group.severity.level,
        score=group.severity.score,
        severity_source=group.severity.source,
        vector=tuple(describe_vector(group.severity.vector)),
        published=first.published[:10],
        modified=first.modified[:10],
        url=first.url,
        packages=vulnerability.packages,
        omitted_packages=vulnerability.omitted_packages,
        details=markdown.render(text.details) if text.details else Markup(""),
        references=tuple(
            (REFERENCE_LABELS[kind], tuple(reference.url for reference in same))
            for kind, same in groupby(text.references, lambda reference: reference.kind)
        ),
        weaknesses=tuple(
            (weakness, _WEAKNESS_URL.format(weakness[4:])) for weakness in text.weaknesses
        ),
    )


def _view_of_finding(finding: FindingView) -> _AdvisoryView:
    """Uses a finding if the advisory itself was withdrawn since."""
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


ROUTES: Routes = live_page(
    f"{PATH}/{{advisory_id}}", "viewer", show, "vulnerabilities/affected", topics=LIVE_TOPICS
)

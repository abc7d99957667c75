"""`agentjobs vulnerabilities`: what scans found; dismissing, snoozing and reopening it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, escape_line
from agentjobs.cli.store_command import store_command
from agentjobs_runtime.clock import DAY_MS, now_ms

if TYPE_CHECKING:
    from agentjobs.advisories.decisions import NewDecision
    from agentjobs.advisories.findings import FindingView

vulnerabilities = typer.Typer(
    no_args_is_help=True, help="List and dismiss vulnerabilities of repositories."
)

Identifier = Annotated[
    str, typer.Argument(metavar="ID", help="Its identifier, as `vulnerabilities list` shows it.")
]
Reason = Literal["not_reachable", "risk_accepted", "false_positive", "fix_later"]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, in words.")]

_COLUMNS = ("id", "severity", "package", "version", "advisory_id", "repo", "fix_version", "state")


@vulnerabilities.command("list")
@store_command
async def list_vulnerabilities(
    admin: Admin,
    repo: Annotated[str | None, typer.Option("--repo", metavar="OWNER/NAME")] = None,
    severity: Annotated[
        Literal["unknown", "low", "medium", "high", "critical"] | None, typer.Option("--severity")
    ] = None,
    dismissed: Annotated[
        bool, typer.Option("--dismissed", help="Only what is dismissed or snoozed.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 100,
    org: Org = DEFAULT_ORG,
) -> Table:
    """List vulnerabilities that are open, the most severe first."""
    from agentjobs.advisories.finding_filter import FindingFilter
    from agentjobs.advisories.findings import list_findings

    owner = await admin.find_organization(org)
    repo_id = (await admin.find_repo(org, repo))[1].id if repo else None
    finding_filter = FindingFilter(repo_id=repo_id, severity=severity, decided=dismissed)
    findings = await list_findings(admin.db, owner.id, finding_filter, limit=limit)
    documents = [_document(finding) for finding in findings]
    rows = [[document[column] for column in _COLUMNS] for document in documents]
    return Table({"vulnerabilities": documents}, _COLUMNS, rows)


@vulnerabilities.command("dismiss")
@store_command
async def dismiss(
    admin: Admin,
    vulnerability_id: Identifier,
    reason: Annotated[Reason, typer.Option("--reason", help="Why it need not be fixed.")],
    note: Note = "",
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Dismiss a vulnerability: it is not counted and starts no job by itself."""
    from agentjobs.advisories.decisions import NewDecision

    return await _decide(admin, org, vulnerability_id, NewDecision(reason=reason, note=note))


@vulnerabilities.command("snooze")
@store_command
async def snooze(
    admin: Admin,
    vulnerability_id: Identifier,
    days: Annotated[int, typer.Option("--days", min=1, max=3_650, help="For how long.")],
    reason: Annotated[Reason, typer.Option("--reason", help="Why not now.")] = "fix_later",
    note: Note = "",
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Dismiss a vulnerability for some days."""
    from agentjobs.advisories.decisions import NewDecision

    decision = NewDecision(reason=reason, note=note, until=now_ms() + days * DAY_MS)
    return await _decide(admin, org, vulnerability_id, decision)


@vulnerabilities.command("reopen")
@store_command
async def reopen(admin: Admin, vulnerability_id: Identifier, org: Org = DEFAULT_ORG) -> Answer:
    """Forget that a vulnerability was dismissed or snoozed."""
    return await _decide(admin, org, vulnerability_id, None)


async def _decide(
    admin: Admin, org: str, vulnerability_id: str, decision: "NewDecision | None"
) -> Answer:
    """Without a decision, it is reopened."""
    from agentjobs.advisories import decisions
    from agentjobs.advisories.packages import find_finding

    owner = await admin.find_organization(org)
    finding = await find_finding(admin.db, owner.id, vulnerability_id)
    package = finding.find_package(owner.id)
    if decision is None:
        await decisions.reopen(admin.db, package, {finding.advisory_id})
    else:
        await decisions.decide(admin.db, package, {finding.advisory_id}, decision)
    document = _document(await find_finding(admin.db, owner.id, vulnerability_id))
    until = f" until {document['until']}" if document["until"] else ""
    subject = f"{document['advisory_id']} of {document['package']} in {document['repo']}"
    return Answer(document, [], [escape_line(f"{subject} is {document['state']}{until}.")])


def _document(finding: "FindingView") -> dict[str, Any]:
    import msgspec

    from agentjobs.advisories.vulnerability_view import vulnerability_view

    document: dict[str, Any] = msgspec.to_builtins(vulnerability_view(finding))
    return document

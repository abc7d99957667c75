"""`agentjobs vulnerabilities`: what scans found; dismissing, snoozing and reopening it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import escape_line, print_json, print_note, print_table

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
def list_vulnerabilities(
    repo: Annotated[str | None, typer.Option("--repo", metavar="OWNER/NAME")] = None,
    severity: Annotated[
        Literal["unknown", "low", "medium", "high", "critical"] | None, typer.Option("--severity")
    ] = None,
    dismissed: Annotated[
        bool, typer.Option("--dismissed", help="Only what is dismissed or snoozed.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 100,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List vulnerabilities that are open, the most severe first."""

    async def work(admin: Admin) -> "list[dict[str, Any]]":
        from agentjobs.advisories.finding_filter import FindingFilter
        from agentjobs.advisories.findings import list_findings
        from agentjobs.organizations.organizations import find_organization
        from agentjobs.repos.queries import find_repo

        owner = await find_organization(admin.db, org)
        repo_id = (await find_repo(admin.db, owner.id, repo)).id if repo else None
        finding_filter = FindingFilter(repo_id=repo_id, severity=severity, decided=dismissed)
        findings = await list_findings(admin.db, owner.id, finding_filter, limit=limit)
        return [_document(finding) for finding in findings]

    documents = with_store(data_dir, work)
    if json:
        print_json({"vulnerabilities": documents})
        return
    print_table(_COLUMNS, [[each[column] for column in _COLUMNS] for each in documents])


@vulnerabilities.command("dismiss")
def dismiss(
    vulnerability_id: Identifier,
    reason: Annotated[Reason, typer.Option("--reason", help="Why it need not be fixed.")],
    note: Note = "",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Dismiss a vulnerability: it is not counted and starts no job by itself."""
    from agentjobs.advisories.decisions import NewDecision

    _decide(vulnerability_id, NewDecision(reason=reason, note=note), org, data_dir, json)


@vulnerabilities.command("snooze")
def snooze(
    vulnerability_id: Identifier,
    days: Annotated[int, typer.Option("--days", min=1, max=3_650, help="For how long.")],
    reason: Annotated[Reason, typer.Option("--reason", help="Why not now.")] = "fix_later",
    note: Note = "",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Dismiss a vulnerability for some days."""
    from agentjobs.advisories.decisions import NewDecision
    from agentjobs.clock import DAY_MS, now_ms

    decision = NewDecision(reason=reason, note=note, until=now_ms() + days * DAY_MS)
    _decide(vulnerability_id, decision, org, data_dir, json)


@vulnerabilities.command("reopen")
def reopen(
    vulnerability_id: Identifier,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Forget that a vulnerability was dismissed or snoozed."""
    _decide(vulnerability_id, None, org, data_dir, json)


def _decide(
    vulnerability_id: str, decision: "NewDecision | None", org: str, data_dir: Any, json: bool
) -> None:
    """Without a decision, it is reopened."""

    async def work(admin: Admin) -> "dict[str, Any]":
        from agentjobs.advisories import decisions
        from agentjobs.advisories.packages import find_finding
        from agentjobs.organizations.organizations import find_organization

        owner = await find_organization(admin.db, org)
        finding = await find_finding(admin.db, owner.id, vulnerability_id)
        package = decisions.RepoPackage.of(owner.id, finding)
        if decision is None:
            await decisions.reopen(admin.db, package, {finding.advisory_id})
        else:
            await decisions.decide(admin.db, package, {finding.advisory_id}, decision)
        return _document(await find_finding(admin.db, owner.id, vulnerability_id))

    document = with_store(data_dir, work)
    if json:
        print_json(document)
        return
    until = f" until {document['until']}" if document["until"] else ""
    subject = f"{document['advisory_id']} of {document['package']} in {document['repo']}"
    print_note(escape_line(f"{subject} is {document['state']}{until}."))


def _document(finding: "FindingView") -> dict[str, Any]:
    import msgspec

    from agentjobs.advisories.vulnerability_view import vulnerability_view

    document: dict[str, Any] = msgspec.to_builtins(vulnerability_view(finding))
    return document

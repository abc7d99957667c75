"""The table `finding_decisions`: vulnerabilities that were dismissed or snoozed until a time.

They are not counted and start no jobs by themselves. Reopening one, or the end of a snooze, forgets
the decision.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, get_args

import msgspec

from agentjobs.organizations import audit
from agentjobs.repos.queues import request_scans
from agentjobs.store.database import Row, Transaction
from agentjobs_dependencies.advisories.dependency_matching import Finding
from agentjobs_runtime.problems import Fault, Problem

State = Literal["dismissed", "snoozed"]
Reason = Literal["not_reachable", "risk_accepted", "false_positive", "fix_later"]

STATES: tuple[State, ...] = get_args(State)
REASONS: tuple[Reason, ...] = get_args(Reason)
MAX_NOTE_LENGTH = 1_000
_MAX_AUDITED = 20

# Columns of `d`, the decision about a finding `f`, if there is one at the time :now.
COLUMNS = ", ".join(
    f"d.{name} AS decision_{name}"
    for name in ("state", "reason", "note", "until", "decided_by_name", "decided_at")
)
JOIN = (
    " LEFT JOIN finding_decisions d ON d.repo_id = f.repo_id AND d.ecosystem = f.ecosystem"
    " AND d.name = f.name AND d.advisory_id = f.advisory_id"
    " AND (d.until IS NULL OR d.until > :now)"
)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`until` is None for a dismissed vulnerability."""

    state: State
    reason: Reason
    note: str
    until: int | None
    decided_by_name: str
    decided_at: int


class NewDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Snoozed with `until`, otherwise dismissed."""

    reason: str
    note: str = ""
    until: int | None = None


class RepoPackage(msgspec.Struct, frozen=True):
    """A package of a repository."""

    organization_id: str
    repo_id: str
    repo: str
    ecosystem: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.name} in {self.repo}"

    @property
    def columns(self) -> dict[str, str]:
        return {"repo_id": self.repo_id, "ecosystem": self.ecosystem, "name": self.name}


def decision_from(row: Row) -> Decision | None:
    if row["decision_state"] is None:
        return None
    return Decision(**{name: row[f"decision_{name}"] for name in Decision.__struct_fields__})


@audit.in_transaction
async def decide(
    tx: Transaction, package: RepoPackage, advisory_ids: Collection[str], decision: NewDecision
) -> None:
    """Dismiss or snooze vulnerabilities of the package; replaces earlier decisions about them."""
    if decision.reason not in REASONS:
        raise _invalid("reason", f"must be one of {', '.join(REASONS)}")
    if len(decision.note) > MAX_NOTE_LENGTH:
        raise _invalid("note", f"must have at most {MAX_NOTE_LENGTH:,} characters")
    now = await tx.clock_ms()
    if decision.until is not None and decision.until <= now:
        raise _invalid("until", "must be in the future")
    advisories = sorted(advisory_ids)
    actor = audit.current_actor()
    values = {
        **package.columns,
        "organization_id": package.organization_id,
        "state": "dismissed" if decision.until is None else "snoozed",
        "reason": decision.reason,
        "note": decision.note,
        "until": decision.until,
        "decided_by": actor.id,
        "decided_by_name": actor.name,
        "now": now,
    }
    await tx.execute_many(
        "INSERT INTO finding_decisions (repo_id, ecosystem, name, advisory_id,"
        " organization_id, state, reason, note, until, decided_by, decided_by_name, decided_at)"
        " VALUES (:repo_id, :ecosystem, :name, :advisory_id, :organization_id, :state, :reason,"
        " :note, :until, :decided_by, :decided_by_name, :now)"
        " ON CONFLICT (repo_id, ecosystem, name, advisory_id) DO UPDATE SET"
        " state = excluded.state, reason = excluded.reason, note = excluded.note,"
        " until = excluded.until, decided_by = excluded.decided_by,"
        " decided_by_name = excluded.decided_by_name, decided_at = excluded.decided_at",
        [{**values, "advisory_id": advisory_id} for advisory_id in advisories],
    )
    note = {"note": decision.note} if decision.note else {}
    await audit.record(
        tx,
        package.organization_id,
        "vulnerability.snoozed" if decision.until else "vulnerability.dismissed",
        package.label,
        advisories=advisories[:_MAX_AUDITED],
        reason=decision.reason,
        **note,
    )
    tx.announce("findings")


@audit.in_transaction
async def reopen(tx: Transaction, package: RepoPackage, advisory_ids: Collection[str]) -> None:
    """Forget decisions, if there are any. The repository is scanned, because the findings may
    start jobs again."""
    advisories = sorted(advisory_ids)
    deleted = await tx.execute(
        "DELETE FROM finding_decisions WHERE repo_id = :repo_id AND ecosystem = :ecosystem"
        " AND name = :name AND advisory_id IN (SELECT value FROM each(:advisory_ids))",
        **package.columns,
        advisory_ids=advisories,
    )
    if not deleted:
        return
    await audit.record(
        tx,
        package.organization_id,
        "vulnerability.reopened",
        package.label,
        advisories=advisories[:_MAX_AUDITED],
    )
    await _request_scans(tx, [package.repo_id])


async def end_snoozes(tx: Transaction, now: int) -> None:
    """Forget snoozes whose time is over, and make their repositories due for a scan."""
    rows = await tx.fetch_all(
        "SELECT DISTINCT repo_id FROM finding_decisions WHERE until IS NOT NULL AND until <= :now",
        now=now,
    )
    if not rows:
        return
    await tx.execute(
        "DELETE FROM finding_decisions WHERE until IS NOT NULL AND until <= :now", now=now
    )
    await _request_scans(tx, [row["repo_id"] for row in rows])


async def keep_decisions(tx: Transaction, repo_id: str, findings: Iterable[Finding]) -> None:
    """A vulnerability may get another main advisory; decisions stay with the vulnerability."""
    rows = await tx.fetch_all(
        "SELECT ecosystem, name, advisory_id FROM finding_decisions WHERE repo_id = :repo_id",
        repo_id=repo_id,
    )
    if not rows:
        return
    main_ids: dict[tuple[str, str, str], str] = {}
    for finding in findings:
        for record in finding.advisories:
            for name in (record.id, *record.aliases):
                main_ids.setdefault((finding.ecosystem, finding.name, name), finding.advisory_id)
        main_ids[finding.ecosystem, finding.name, finding.advisory_id] = finding.advisory_id
    for row in rows:
        main_id = main_ids.get((row["ecosystem"], row["name"], row["advisory_id"]))
        if main_id is not None and main_id != row["advisory_id"]:
            await _rename(tx, repo_id, row, main_id)


def _invalid(field: str, message: str) -> Problem:
    details: list[Fault] = [{"field": field, "message": message}]
    return Problem("validation_failed", f"{field} {message}.", details=details)


async def _request_scans(tx: Transaction, repo_ids: Sequence[str]) -> None:
    await request_scans(tx, "r.id IN (SELECT value FROM each(:ids))", ids=repo_ids)
    tx.announce("findings")


async def _rename(tx: Transaction, repo_id: str, row: Row, advisory_id: str) -> None:
    """Unless there is a decision about the new one."""
    where = "repo_id = :repo_id AND ecosystem = :ecosystem AND name = :name AND advisory_id = "
    await tx.execute(
        f"UPDATE finding_decisions SET advisory_id = :new WHERE {where}:old AND NOT EXISTS"
        f" (SELECT 1 FROM finding_decisions WHERE {where}:new)",
        repo_id=repo_id,
        ecosystem=row["ecosystem"],
        name=row["name"],
        old=row["advisory_id"],
        new=advisory_id,
    )

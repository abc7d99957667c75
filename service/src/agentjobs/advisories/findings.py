"""The table `findings`, and its views, always scoped to their organization."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.advisories import decisions
from agentjobs.advisories.decisions import Decision, RepoPackage, decision_from
from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.store.batch_statement import BatchStatement, Table, insert_rows
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_dependencies.advisories.dependency_matching import (
    AdvisorySummary,
    Finding,
    FindingWithFix,
    Package,
)
from agentjobs_dependencies.advisories.severity import LEVELS
from agentjobs_dependencies.version_choice import Choice
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id

_decode_advisories = msgspec.json.Decoder(tuple[AdvisorySummary, ...]).decode

# Worst first.
_RANKS = {level: rank for rank, level in enumerate(reversed(LEVELS))}
# By level, then by score.
_SORT_KEY = (
    "CASE f.severity " + " ".join(f"WHEN '{k}' THEN {v}" for k, v in _RANKS.items()) + " END"
)
_SORT_KEY = f"(({_SORT_KEY}) * 1000 + 100 - CAST(ROUND(COALESCE(f.score, 0) * 10) AS INTEGER))"
SELECT = (
    f"SELECT f.*, r.full_name AS repo, {_SORT_KEY} AS sort_key, {decisions.COLUMNS}"
    f" FROM findings f JOIN repos r ON r.id = f.repo_id AND r.disconnected_at IS NULL"
    f"{decisions.JOIN}"
)
_EVERY = FindingFilter()
_KEY = ("manifest", "ecosystem", "name", "version", "advisory_id")
_CHANGEABLE = {
    "direct": "boolean",
    "fixture": "boolean",
    "imported": "text",
    "managed_by": "text",
    "advisory_ids": "text",
    "severity": "text",
    "score": "double precision",
    "severity_source": "text",
    "summary": "text",
    "fix_version": "text",
    "fix_reason": "text",
}
_COPIED = tuple(name for name in Finding.__struct_fields__ if name in _CHANGEABLE)
_TYPES = {
    **dict.fromkeys(("id", "organization_id", "repo_id", *_KEY), "text"),
    **_CHANGEABLE,
    "first_seen_at": "bigint",
}
_FINDINGS = Table("findings", _TYPES)
_UPDATE = BatchStatement(
    {"id": "text", **_CHANGEABLE},
    one=f"UPDATE findings SET {', '.join(f'{name} = :{name}' for name in _CHANGEABLE)}"
    " WHERE id = :id",
    many=f"UPDATE findings SET {', '.join(f'{name} = v.{name}' for name in _CHANGEABLE)}"
    " FROM {rows} WHERE findings.id = v.id",
)


class FindingView(FindingWithFix, frozen=True, kw_only=True):
    """A stored finding. `decision` is set while it is dismissed or snoozed."""

    id: str
    repo_id: str
    repo: str
    first_seen_at: int
    decision: Decision | None = None

    def find_package(self, organization_id: str) -> RepoPackage:
        return RepoPackage(organization_id, self.repo_id, self.repo, self.ecosystem, self.name)

    @property
    def cursor(self) -> str:
        """The value of `after` for the page that follows this finding."""
        sort_key = _RANKS[self.severity] * 1000 + 100 - round((self.score or 0) * 10)  # type: ignore[index]
        return f"{sort_key:04d}{self.id}"


class FindingCounts(msgspec.Struct, frozen=True):
    """`by_severity` has every severity, worst first, without findings in fixtures and without
    those that are dismissed or snoozed."""

    by_severity: dict[str, int]
    fixtures: int
    decided: int = 0

    @property
    def total(self) -> int:
        return sum(self.by_severity.values())


async def list_findings(
    db: Database,
    organization_id: str,
    filter: FindingFilter = _EVERY,
    *,
    limit: int = 100,
    after: str | None = None,
) -> list[FindingView]:
    """Worst first. `after` is the `cursor` of the last finding of the previous page."""
    sort_key, last = split_cursor(after)
    rows = await db.fetch_all(
        f"{SELECT} WHERE f.organization_id = :organization_id{filter.conditions}"
        f" AND ({_SORT_KEY}, f.id) > (CAST(:sort_key AS INTEGER), :last)"
        f" ORDER BY {_SORT_KEY}, f.id LIMIT :limit",
        organization_id=organization_id,
        **filter.parameters,
        sort_key=sort_key,
        last=last,
        limit=limit,
    )
    return [finding_view(row) for row in rows]


def split_cursor(after: str | None) -> tuple[int, str]:
    """The sort key and the identifier of the last row of the previous page."""
    if not after or not after[:4].isdecimal():
        return 0, ""
    return int(after[:4]), after[4:]


async def findings_of_repo(
    db: Database, repo_id: str, names: Sequence[str] | None = None
) -> list[FindingView]:
    """The findings of the repository, worst first: all, or only those of packages by name."""
    only = "" if names is None else " AND f.name IN (SELECT value FROM each(:names))"
    rows = await db.fetch_all(
        f"{SELECT} WHERE f.repo_id = :repo_id{only} ORDER BY {_SORT_KEY}, f.id",
        repo_id=repo_id,
        names=names or [],
        now=now_ms(),
    )
    return [finding_view(row) for row in rows]


async def count_findings(
    db: Database, organization_id: str, *, repo_id: str | None = None
) -> FindingCounts:
    only = " AND f.repo_id = :repo_id" if repo_id else ""
    rows = await db.fetch_all(
        "SELECT f.severity, f.fixture, d.state IS NOT NULL AS decided, COUNT(*) AS number"
        " FROM findings f JOIN repos r ON r.id = f.repo_id AND r.disconnected_at IS NULL"
        f"{decisions.JOIN} WHERE f.organization_id = :organization_id{only}"
        " GROUP BY f.severity, f.fixture, d.state IS NOT NULL",
        organization_id=organization_id,
        repo_id=repo_id,
        now=now_ms(),
    )
    counts: Counter[str] = Counter()
    for row in rows:
        kind = "decided" if row["decided"] else "fixture" if row["fixture"] else row["severity"]
        counts[kind] += int(row["number"])
    return FindingCounts(
        by_severity={level: counts[level] for level in _RANKS},
        fixtures=counts["fixture"],
        decided=counts["decided"],
    )


async def count_findings_by_repo(
    db: Database, organization_id: str, repo_ids: Sequence[str]
) -> dict[str, dict[str, int]]:
    """The findings that `FindingCounts` counts, by repository and severity, worst first."""
    rows = await db.fetch_all(
        "SELECT f.repo_id, f.severity, COUNT(*) AS number FROM findings f"
        f"{decisions.JOIN} WHERE f.repo_id IN (SELECT value FROM each(:repo_ids))"
        # Not an index of the whole organization, which SQLite would choose.
        " AND /*sqlite + */f.organization_id = :organization_id"
        " AND NOT f.fixture AND d.state IS NULL GROUP BY f.repo_id, f.severity",
        organization_id=organization_id,
        repo_ids=repo_ids,
        now=now_ms(),
    )
    counts: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: _RANKS[row["severity"]]):
        counts.setdefault(row["repo_id"], {})[row["severity"]] = row["number"]
    return counts


async def replace_findings(
    tx: Transaction,
    organization_id: str,
    repo_id: str,
    findings: Sequence[Finding],
    choices: Mapping[Package, Choice],
) -> None:
    """Findings that already exist keep their id and `first_seen_at`."""
    stored = await tx.fetch_all("SELECT * FROM findings WHERE repo_id = :repo_id", repo_id=repo_id)
    before = {tuple(row[name] for name in _KEY): row for row in stored}
    now = await tx.clock_ms()
    fresh, changed = [], []
    for finding in findings:
        values = _values(finding, choices[finding.package])
        row = before.pop(finding.key, None)
        if row is None:
            owner = {"organization_id": organization_id, "repo_id": repo_id}
            key = dict(zip(_KEY, finding.key, strict=True))
            fresh.append({"id": new_id("fnd"), **owner, **key, **values, "first_seen_at": now})
        elif any(row[name] != value for name, value in values.items()):
            changed.append({"id": row["id"], **values})
    await tx.execute(
        "DELETE FROM findings WHERE id IN (SELECT value FROM each(:ids))",
        ids=[row["id"] for row in before.values()],
    )
    await _UPDATE.run(tx, changed)
    await insert_rows(tx, {_FINDINGS: fresh})
    await decisions.keep_decisions(tx, repo_id, findings)


def _values(finding: Finding, choice: Choice) -> dict[str, Any]:
    return {
        **{name: getattr(finding, name) for name in _COPIED},
        "advisory_ids": msgspec.json.encode(finding.advisories).decode(),
        "summary": finding.summary.replace("\0", " "),
        "fix_version": choice.version,
        "fix_reason": choice.reason,
    }


def finding_view(row: Row) -> FindingView:
    return to_struct(
        row,
        FindingView,
        advisories=_decode_advisories(row["advisory_ids"]),
        direct=bool(row["direct"]),
        fixture=bool(row["fixture"]),
        decision=decision_from(row),
    )

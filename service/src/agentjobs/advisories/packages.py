"""Vulnerable packages: the findings of a repository about one package, as one entry of a list."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import (
    SELECT,
    FindingView,
    finding_view,
    list_findings,
    split_cursor,
)
from agentjobs.store.database import Database, Row
from agentjobs_runtime.problems import Problem

# Some packages have hundreds of advisories; the worst are enough for a list.
_MAX_LISTED = 30
# Limit for one package of a repository.
_MAX_FINDINGS = 5_000
_GROUP = "repo_id, ecosystem, name"


class VulnerablePackage(msgspec.Struct, frozen=True, kw_only=True):
    """`findings` are the worst ones first, `advisories` counts all vulnerabilities and `fixable`
    those with a fix. `id` is that of any of its findings."""

    id: str
    findings: Sequence[FindingView]
    advisories: int
    fixable: int
    cursor: str

    @property
    def worst(self) -> FindingView:
        return self.findings[0]


async def list_packages(
    db: Database,
    organization_id: str,
    filter: FindingFilter,
    *,
    limit: int,
    after: str | None = None,
) -> list[VulnerablePackage]:
    """The one with the worst finding first; only findings that match the filter count."""
    sort_key, last = split_cursor(after)
    rows = await db.fetch_all(
        f"WITH matching AS ({SELECT} WHERE f.organization_id = :organization_id"
        f"{filter.conditions}),"
        f" packages AS (SELECT {_GROUP}, MIN(sort_key) AS worst, MIN(id) AS first_id,"
        " COUNT(DISTINCT advisory_id) AS advisories, COUNT(DISTINCT CASE WHEN fix_version"
        f" IS NOT NULL THEN advisory_id END) AS fixable FROM matching GROUP BY {_GROUP}"
        " HAVING (MIN(sort_key), MIN(id)) > (CAST(:sort_key AS INTEGER), :last)"
        " ORDER BY worst, first_id LIMIT :limit)"
        " SELECT * FROM (SELECT m.*, p.worst, p.first_id, p.advisories, p.fixable,"
        " ROW_NUMBER() OVER (PARTITION BY m.repo_id, m.ecosystem, m.name"
        " ORDER BY m.sort_key, m.id) AS place FROM matching m JOIN packages p"
        " ON p.repo_id = m.repo_id AND p.ecosystem = m.ecosystem AND p.name = m.name) AS ranked"
        " WHERE place <= :max_listed ORDER BY worst, first_id, place",
        organization_id=organization_id,
        **filter.parameters,
        sort_key=sort_key,
        last=last,
        limit=limit,
        max_listed=_MAX_LISTED,
    )
    return [_package(list(same)) for _, same in groupby(rows, lambda row: row["first_id"])]


async def findings_of_package(
    db: Database, organization_id: str, finding_id: str
) -> list[FindingView]:
    """All findings of the package in the repository that the finding is about, worst first."""
    row = await db.fetch_one(
        f"SELECT {_GROUP} FROM findings WHERE id = :id AND organization_id = :organization_id",
        id=finding_id,
        organization_id=organization_id,
    )
    if row is None:
        raise _not_found()
    package = FindingFilter(repo_id=row["repo_id"], ecosystem=row["ecosystem"], name=row["name"])
    findings = await list_findings(db, organization_id, package, limit=_MAX_FINDINGS)
    if not findings:
        raise _not_found()
    return findings


async def find_finding(db: Database, organization_id: str, finding_id: str) -> FindingView:
    findings = await list_findings(db, organization_id, FindingFilter(id=finding_id), limit=1)
    if not findings:
        raise _not_found()
    return findings[0]


def _not_found() -> Problem:
    return Problem(
        "vulnerability_not_found",
        "There is no such vulnerability any more: the package was upgraded or removed.",
    )


def _package(rows: Sequence[Row]) -> VulnerablePackage:
    first = rows[0]
    return VulnerablePackage(
        id=first["first_id"],
        findings=[finding_view(row) for row in rows],
        advisories=int(first["advisories"]),
        fixable=int(first["fixable"]),
        cursor=f"{int(first['worst']):04d}{first['first_id']}",
    )

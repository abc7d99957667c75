"""The dashboard's list of repositories: filters, orders, and what happens in each of them; and
the repositories that a field suggests."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from agentjobs.advisories import decisions
from agentjobs.advisories.findings import count_findings_by_repo
from agentjobs.jobs.views.listing import JobLine, lines_by_id
from agentjobs.repos.queries import (
    IS_INDEXED,
    REPO_COLUMNS,
    REPO_TABLES,
    RepoView,
    repo_view,
)
from agentjobs.store.database import Database, Row
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_runtime.clock import now_ms

Order = Literal["active", "vulnerable", "name"]
State = Literal["ready", "indexing", "failing"]

_SHOWN_LANGUAGES = 3
_RECENT_JOBS = 200
_LAST_JOB = (
    "(SELECT MAX(j.id) FROM jobs j /*sqlite INDEXED BY jobs_of_repo */"
    " WHERE j.organization_id = r.organization_id AND j.repo = r.full_name)"
)
# One of a worse severity counts for more than all others.
_EXPOSURE = (
    "(SELECT COALESCE(SUM(CASE f.severity WHEN 'critical' THEN 1000000000.0 WHEN 'high'"
    " THEN 1000000.0 WHEN 'medium' THEN 1000.0 ELSE 1.0 END), 0) FROM findings f"
    f"{decisions.JOIN} WHERE f.repo_id = r.id AND NOT f.fixture AND d.state IS NULL)"
)
# Each reads an index once for each repository; of equal ones, the first by name.
_RANKS: Mapping[Order, str] = {
    "active": f"COALESCE({_LAST_JOB}, '')",
    "vulnerable": _EXPOSURE,
    "name": "",
}
_CONDITIONS: Mapping[State, str] = {
    "ready": f" AND {IS_INDEXED}",
    "indexing": f" AND (NOT {IS_INDEXED} OR q.due_at IS NOT NULL)",
    "failing": " AND (i.error IS NOT NULL OR s.error IS NOT NULL)",
}


class RepoFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None matches any value; `search` is a part of the name."""

    search: str = ""
    platform: str | None = None
    state: State | None = None


class RepoLine(msgspec.Struct, frozen=True, kw_only=True):
    """`languages` are the most used; `findings` are the numbers of open vulnerabilities by
    severity, worst first, of those that there are."""

    repo: RepoView
    languages: tuple[str, ...]
    findings: Mapping[str, int]
    open_pulls: int
    last_job: JobLine | None

    @property
    def worst_severity(self) -> str:
        """The empty string without a vulnerability."""
        return next(iter(self.findings), "")


async def list_repo_lines(
    db: Database,
    organization_id: str,
    filter: RepoFilter,
    *,
    order: Order = "active",
    limit: int,
    offset: int = 0,
) -> list[RepoLine]:
    """All orders but that of names are descending."""
    rows = await db.fetch_all(
        _statement(filter, order),
        organization_id=organization_id,
        pattern=contains_pattern(filter.search.lower()),
        platform=filter.platform,
        now=now_ms(),
        limit=limit,
        offset=offset,
    )
    findings = await count_findings_by_repo(db, organization_id, [row["id"] for row in rows])
    jobs = await lines_by_id(db, [row["last_job"] for row in rows if row["last_job"]])
    return [
        RepoLine(
            repo=repo_view(row),
            languages=_languages(row),
            findings=findings.get(row["id"], {}),
            open_pulls=row["open_pulls"],
            last_job=jobs.get(row["last_job"]),
        )
        for row in rows
    ]


def _statement(filter: RepoFilter, order: Order) -> str:
    """The repositories of the page are selected before anything else is read: rows are large."""
    rank = _RANKS[order]
    page = (
        f"SELECT r.id{f', {rank} AS rank_value' if rank else ''} FROM {REPO_TABLES}"
        " WHERE r.organization_id = :organization_id AND r.disconnected_at IS NULL"
        " AND LOWER(r.full_name) LIKE :pattern ESCAPE '!'"
        f"{' AND r.platform = :platform' if filter.platform else ''}"
        f"{_CONDITIONS[filter.state] if filter.state else ''}"
        f" ORDER BY {'rank_value DESC, ' if rank else ''}r.full_name LIMIT :limit OFFSET :offset"
    )
    return (
        f"WITH p AS ({page}) SELECT {REPO_COLUMNS}, i.languages, {_LAST_JOB} AS last_job,"
        " (SELECT COUNT(*) FROM pulls u WHERE u.repo_id = r.id AND u.state = 'open') AS open_pulls"
        f" FROM {REPO_TABLES} JOIN p ON p.id = r.id"
        f" ORDER BY {'p.rank_value DESC, ' if rank else ''}r.full_name"
    )


def _languages(row: Row) -> tuple[str, ...]:
    languages = msgspec.json.decode(row["languages"] or "[]", type=tuple[LanguageLines, ...])
    most_used = sorted(languages, key=lambda language: -language.lines)
    return tuple(entry.language for entry in most_used[:_SHOWN_LANGUAGES])


async def suggest_repos(
    db: Database, organization_id: str, *, search: str = "", limit: int
) -> list[RepoView]:
    """First those of the newest jobs, then others, then those still indexing.

    `search` is a part of their names, in any case. Equal ones are in the order of names."""
    rows = await db.fetch_all(
        f"WITH p AS (SELECT r.id, CASE WHEN NOT {IS_INDEXED} THEN 2"
        "  WHEN r.full_name IN (SELECT j.repo FROM"
        "   (SELECT repo FROM jobs WHERE organization_id = :organization_id"
        f"   ORDER BY id DESC LIMIT {_RECENT_JOBS}) j) THEN 0 ELSE 1 END AS rank_value"
        " FROM repos r LEFT JOIN repo_index i ON i.repo_id = r.id"
        " WHERE r.organization_id = :organization_id AND r.disconnected_at IS NULL"
        " AND LOWER(r.full_name) LIKE :pattern ESCAPE '!'"
        " ORDER BY rank_value, r.full_name LIMIT :limit)"
        f" SELECT {REPO_COLUMNS} FROM {REPO_TABLES} JOIN p ON p.id = r.id"
        " ORDER BY p.rank_value, r.full_name",
        organization_id=organization_id,
        pattern=contains_pattern(search.lower()),
        limit=limit,
    )
    return [repo_view(row) for row in rows]

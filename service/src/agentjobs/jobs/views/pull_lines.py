"""The dashboard's lists of pull requests: who asked for them, how large they are, and filters.

A filter that no index serves is applied to a bounded number of pull requests per page.
"""

import msgspec

from agentjobs.organizations.authentication import SERVICE_ID
from agentjobs.pulls.pulls import NEWEST_PULL, PullCursor, pull_path
from agentjobs.store.database import Database, Row, to_struct
from agentjobs.store.like_pattern import contains_pattern

# How many pull requests the search for a page reads at most.
MAX_SCANNED = 2_000
# How many of the newest pull requests have their authors as choices.
_MAX_RECENT = 500
_MAX_AUTHORS = 50
_AFTER = (
    "p.created_at <= :created_at AND (p.created_at < :created_at OR r.full_name > :name"
    " OR r.full_name = :name AND p.number < :number)"
)
_OPENED = (
    "LEFT JOIN jobs j ON j.id = (SELECT MIN(o.id) FROM jobs o"
    " WHERE o.repo_id = s.repo_id AND o.pr_number = s.number)"
)
# The diff of a follow-up is what it added to the branch. SQLite keeps the order of CROSS JOIN: it
# would begin with all jobs that have a pull request.
_CHANGED = (
    "SELECT o.repo_id, o.pr_number, SUM(d.additions) AS additions, SUM(d.deletions) AS deletions,"
    " MAX(CASE WHEN d.is_truncated THEN 1 ELSE 0 END) AS is_truncated"
    " FROM page CROSS JOIN jobs o CROSS JOIN job_diffs d"
    " WHERE o.repo_id = page.repo_id AND o.pr_number = page.number AND d.job_id = o.id"
    " GROUP BY o.repo_id, o.pr_number"
)
_COMMENTS = (
    "(SELECT COUNT(*) FROM pull_comments c"
    " WHERE c.repo_id = page.repo_id AND c.number = page.number) AS comments"
)


class PullFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is a part of the title, or the number; `author` whoever created the job."""

    repo: str | None = None
    state: str | None = None
    text: str = ""
    author: str | None = None
    agent: str | None = None

    @property
    def is_searched(self) -> bool:
        return bool(self.text or self.author or self.agent)


class PullLine(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of lines are sums over its jobs; None if those stored none."""

    path: str
    repo: str
    number: int
    title: str
    state: str
    draft: bool
    url: str | None
    created_at: int
    author_id: str | None
    author: str | None
    agent: str | None
    additions: int | None
    deletions: int | None
    is_truncated: bool
    comments: int

    @property
    def is_by_service(self) -> bool:
        """Whether vulnerabilities started its job."""
        return self.author_id == SERVICE_ID

    @property
    def cursor(self) -> PullCursor:
        return self.created_at, self.repo, self.number


class PullPage(msgspec.Struct, frozen=True):
    """`next_before` is the cursor of the next page. `searched_to` is set when the search stopped
    at that time although the page is not full."""

    lines: list[PullLine]
    next_before: PullCursor | None = None
    searched_to: int | None = None


class PullAuthor(msgspec.Struct, frozen=True):
    id: str
    name: str


async def list_pull_lines(
    db: Database,
    organization_id: str,
    organization: str,
    filter: PullFilter,
    *,
    limit: int,
    before: PullCursor | None = None,
) -> PullPage:
    """Newest first; `before` is the `next_before` of the previous page."""
    scan_size = MAX_SCANNED if filter.is_searched else limit + 1
    parameters = {
        "repo": filter.repo,
        "state": filter.state,
        "author": filter.author,
        "agent": filter.agent,
        "pattern": contains_pattern(filter.text.lower()),
        "text": filter.text.removeprefix("#"),
    }
    if any("\0" in value for value in parameters.values() if value):
        # No stored text contains NUL, and PostgreSQL refuses it as a parameter.
        return PullPage([])
    rows = await db.fetch_all(
        _statement(filter, scan_size, limit + 1),
        organization_id=organization_id,
        **_position(before),
        **parameters,
    )
    lines = [_line(row, organization) for row in rows if row["number"] is not None]
    if len(lines) > limit:
        return PullPage(lines[:limit], lines[limit - 1].cursor)
    if not rows or rows[0]["scanned"] < scan_size:
        return PullPage(lines)
    reached = (rows[0]["reached_at"], rows[0]["reached_name"], rows[0]["reached_number"])
    return PullPage(lines, reached, reached[0])


async def recent_authors(db: Database, organization_id: str) -> list[PullAuthor]:
    """Whoever created the jobs of the newest pull requests, by name."""
    rows = await db.fetch_all(
        f"WITH s AS ({_scan(_MAX_RECENT, PullFilter())})"
        f" SELECT j.created_by AS id, MAX(j.created_by_name) AS name FROM s {_OPENED}"
        " WHERE j.created_by IS NOT NULL GROUP BY j.created_by"
        f" ORDER BY LOWER(MAX(j.created_by_name)), j.created_by LIMIT {_MAX_AUTHORS}",
        organization_id=organization_id,
        **_position(None),
    )
    return [PullAuthor(row["id"], row["name"] or row["id"]) for row in rows]


def _statement(filter: PullFilter, scan_size: int, limit: int) -> str:
    """Returns a row even when nothing matches, to tell how far the scan got."""
    conditions = [
        *(["j.created_by = :author"] if filter.author else []),
        *(["j.agent = :agent"] if filter.agent else []),
        *(
            ["(LOWER(p.title) LIKE :pattern ESCAPE '!' OR CAST(p.number AS TEXT) = :text)"]
            if filter.text
            else []
        ),
    ]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return (
        f"WITH s AS ({_scan(scan_size, filter)}),"
        " reached AS (SELECT created_at AS reached_at, full_name AS reached_name,"
        "  number AS reached_number, (SELECT COUNT(*) FROM s) AS scanned FROM s"
        "  ORDER BY created_at, full_name DESC, number LIMIT 1),"
        " page AS (SELECT s.repo_id, s.number, s.created_at, s.full_name, p.title, p.state,"
        "  p.draft, p.url, j.created_by, j.created_by_name, j.agent"
        "  FROM s JOIN pulls p ON p.repo_id = s.repo_id AND p.number = s.number"
        f"  {_OPENED} {where}"
        f"  ORDER BY s.created_at DESC, s.full_name, s.number DESC LIMIT {limit}),"
        f" changed AS ({_CHANGED})"
        f" SELECT reached.*, page.*, d.additions, d.deletions, d.is_truncated, {_COMMENTS}"
        " FROM reached LEFT JOIN page ON 1 = 1"
        " LEFT JOIN changed d ON d.repo_id = page.repo_id AND d.pr_number = page.number"
        " ORDER BY page.created_at DESC, page.full_name, page.number DESC"
    )


def _scan(size: int, filter: PullFilter) -> str:
    """The newest pull requests, from indexes alone, because their texts may be long. PostgreSQL
    reads the newest of each repository, which SQLite cannot; it sorts fast enough."""
    repo = " AND r.full_name = :repo" if filter.repo else ""
    state = " AND p.state = :state" if filter.state else ""
    newest = (
        "SELECT p.repo_id, p.number, p.created_at FROM pulls p WHERE p.repo_id = r.id"
        f" AND {_AFTER}{state} ORDER BY p.created_at DESC, p.number DESC LIMIT {size}"
    )
    return (
        "SELECT p.repo_id, p.number, p.created_at, r.full_name FROM repos r"
        f" /*postgresql CROSS JOIN LATERAL ({newest}) AS p */"
        f" /*sqlite JOIN pulls p ON p.repo_id = r.id AND {_AFTER}{state} */"
        f" WHERE r.organization_id = :organization_id AND r.disconnected_at IS NULL{repo}"
        f" ORDER BY p.created_at DESC, r.full_name, p.number DESC LIMIT {size}"
    )


def _position(before: PullCursor | None) -> dict[str, object]:
    created_at, name, number = before or NEWEST_PULL
    return {"created_at": created_at, "name": name, "number": number}


def _line(row: Row, organization: str) -> PullLine:
    return to_struct(
        row,
        PullLine,
        path=pull_path(organization, row["full_name"], row["number"]),
        repo=row["full_name"],
        draft=bool(row["draft"]),
        author_id=row["created_by"],
        author=row["created_by_name"],
        additions=None if row["additions"] is None else int(row["additions"]),
        deletions=None if row["deletions"] is None else int(row["deletions"]),
        is_truncated=bool(row["is_truncated"]),
    )

"""Lists of jobs as people look through them: filters, a search, a line for each job, in pages."""

from typing import Any

import msgspec

from agentjobs.identifiers import first_id_at, time_of
from agentjobs.jobs.model import Cause, stored_cause
from agentjobs.jobs.states import JobStatus
from agentjobs.jobs.views.job_search import NO_BOUND, found_jobs
from agentjobs.store.database import Database, Row
from agentjobs.store.like_pattern import containing

_MOST_TITLE_LENGTH = 200
_COLUMNS = (
    "j.id, j.status, j.repo, j.agent, j.ticket_id, j.created_at, j.started_at, j.completed_at,"
    " j.pr_url, j.pr_number, j.error_code, j.usage, j.config_override, j.created_by_name,"
    " j.follows, j.cause"
)
_WORDS = (
    "config_override",
    "id",
    "repo",
    "agent",
    "branch",
    "ticket_id",
    "error_code",
    "error_message",
    "('#' || pr_number)",
    "cause",
)
# Only a to z have two cases here: that is all SQLite knows, and both engines shall agree. On
# SQLite LIKE does without copies of all the texts.
_HAS_TEXT = "/*sqlite ({}) *//*postgresql ({}) */".format(
    " OR ".join(f"{word} LIKE :pattern ESCAPE '!'" for word in _WORDS),
    " OR ".join(f'STRPOS(LOWER({word} COLLATE "C"), :text) > 0' for word in _WORDS),
)


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. `since` and `until` are milliseconds, the latter exclusive.

    `created_by` is the identifier of a key or a user. `text` is part of what a job is known by:
    identifiers, names, error, number of the pull request, what was asked for.
    """

    status: JobStatus | None = None
    repo: str | None = None
    agent: str | None = None
    ticket: str | None = None
    created_by: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """Times are milliseconds; `title` is what was asked for in a line, if anything was."""

    job_id: str
    status: JobStatus
    repo: str
    agent: str
    ticket_id: str | None
    created_at: int
    started_at: int | None
    completed_at: int | None
    pr_url: str | None
    pr_number: int | None
    error_code: str | None
    cost_usd: float | None
    created_by_name: str | None
    follows: str | None
    title: str | None


class JobPage(msgspec.Struct, frozen=True):
    """`next_before` leads on. `searched_to` is a time: the page is not full, but older jobs than
    that were not looked at yet."""

    lines: list[JobLine]
    next_before: str | None
    searched_to: int | None


class _Asked(msgspec.Struct, frozen=True):
    title: Any = None
    prompt: Any = None


class _Cost(msgspec.Struct, frozen=True):
    cost_usd: float


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_cost = msgspec.json.Decoder(_Cost).decode


async def list_lines(
    db: Database,
    organization_id: str,
    wanted: JobFilter,
    *,
    limit: int,
    before: str | None = None,
) -> JobPage:
    """Newest first; `before` is the `next_before` of the page that was seen."""
    given = _given(wanted)
    since = "" if wanted.since is None else first_id_at("job", max(wanted.since, 0))
    text = (wanted.text or "").strip()
    if any("\0" in value for value in (*given.values(), text, before or "")):
        # No store holds it, and PostgreSQL does not even take it.
        return JobPage([], None, None)
    rows = await db.fetch_all(
        _statement(tuple(given), limit + 1, searched=bool(text)),
        **given,
        organization_id=organization_id,
        before=_least(before, wanted.until),
        since=since,
        **_sought(text),
    )
    lines = [_line(row) for row in rows if row["id"] is not None]
    if len(lines) > limit:
        return JobPage(lines[:limit], lines[limit - 1].job_id, None)
    reached = rows[0]["reached"]
    if reached == since:
        return JobPage(lines, None, None)
    return JobPage(lines, reached, time_of(reached))


async def lines_of_pull(db: Database, repo_id: str, number: int) -> list[JobLine]:
    """The jobs that worked on a pull request, and those that are at it; the oldest first."""
    rows = await db.fetch_all(
        f"WITH done AS (SELECT id FROM jobs WHERE repo_id = :repo_id AND pr_number = :number)"
        f" SELECT {_COLUMNS} FROM jobs j WHERE j.id IN (SELECT id FROM done"
        "  UNION SELECT f.id FROM jobs f JOIN done ON f.follows = done.id)"
        " ORDER BY j.id LIMIT 100",
        repo_id=repo_id,
        number=number,
    )
    return [_line(row) for row in rows]


def title_of(config_override: str, cause: Cause | None) -> str | None:
    """The title that was asked for, or the first line of what was, or what nobody had to ask."""
    asked = _decode_asked(config_override)
    for text in (asked.title, asked.prompt):
        if isinstance(text, str) and text.strip():
            return text.strip().splitlines()[0][:_MOST_TITLE_LENGTH]
    if cause is None:
        return None
    return f"{cause.package} to {cause.fix_version}"[:_MOST_TITLE_LENGTH]


def cost_of(usage: str | None) -> float | None:
    return None if usage is None else _decode_cost(usage).cost_usd


def _statement(filters: tuple[str, ...], limit: int, *, searched: bool) -> str:
    conditions = (_HAS_TEXT,) if searched else ()
    found = found_jobs(filters, limit=limit, conditions=conditions, bounded=True)
    # A row even when nothing is found, to say how far it looked.
    return (
        f"{found} SELECT reached.id AS reached, {_COLUMNS} FROM reached"
        " LEFT JOIN page ON 1 = 1 LEFT JOIN jobs j ON j.id = page.id ORDER BY j.id DESC"
    )


def _sought(text: str) -> dict[str, str]:
    """`encode` and back, because only a to z are to be lowered."""
    lowered = text.encode(errors="replace").lower().decode()
    return {"text": lowered, "pattern": containing(lowered)}


def _given(wanted: JobFilter) -> dict[str, str]:
    values = {
        "status": wanted.status,
        "repo": wanted.repo,
        "agent": wanted.agent,
        "ticket_id": wanted.ticket,
        "created_by": wanted.created_by,
    }
    return {name: value for name, value in values.items() if value is not None}


def _least(before: str | None, until: int | None) -> str:
    bounds = [NO_BOUND]
    if before is not None:
        bounds.append(before)
    if until is not None:
        bounds.append(first_id_at("job", max(until, 0)))
    return min(bounds)


def _line(row: Row) -> JobLine:
    return JobLine(
        job_id=row["id"],
        status=row["status"],
        repo=row["repo"],
        agent=row["agent"],
        ticket_id=row["ticket_id"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        pr_url=row["pr_url"],
        pr_number=row["pr_number"],
        error_code=row["error_code"],
        cost_usd=cost_of(row["usage"]),
        created_by_name=row["created_by_name"],
        follows=row["follows"],
        title=title_of(row["config_override"], stored_cause(row["cause"])),
    )

"""The dashboard's lists of jobs: filters, full-text search and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.jobs.model import stored_labels, stored_ticket
from agentjobs.jobs.phases import JobTimes, PhaseName, current_phase
from agentjobs.jobs.states import FINAL, JobStatus
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.job_search import page_query
from agentjobs.jobs.views.rows import IS_CLAIMED
from agentjobs.jobs.views.titles import agent_on_repo, choose_title
from agentjobs.store.database import Database, Row, to_struct
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_runtime.identifiers import creation_time_ms
from agentjobs_runtime.protocol.cause import stored_cause
from agentjobs_runtime.protocol.verification import Verification, stored_verification

# How many jobs the search for a page reads at most.
MAX_SCANNED = 2_500
_MAX_FAILED = 50
_COLUMNS = (
    "j.id, j.status, j.repo, j.agent, j.ticket_id, j.created_at, j.started_at, j.completed_at,"
    " j.pr_url, j.pr_number, j.error_code, j.usage, j.config_override, j.created_by_name,"
    " j.follows, j.cause, j.ticket, j.labels, j.queued_at,"
    f" {IS_CLAIMED} AS is_claimed,"
    " CASE WHEN j.status IN ('queued', 'running') THEN j.phases END AS phases"
)
_SEARCHED = (
    "config_override",
    "id",
    "repo",
    "agent",
    "branch",
    "ticket_id",
    "ticket",
    "error_code",
    "error_message",
    "('#' || pr_number)",
    "cause",
    "labels",
)
# Case-insensitive for a to z only: SQLite does no more, and both engines must agree. LIKE needs no
# lower-case copies of the texts on SQLite.
_HAS_TEXT = "/*sqlite ({}) *//*postgresql ({}) */".format(
    " OR ".join(f"{column} LIKE :pattern ESCAPE '!'" for column in _SEARCHED),
    " OR ".join(f'STRPOS(LOWER({column} COLLATE "C"), :text) > 0' for column in _SEARCHED),
)


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in milliseconds."""

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
    labels: Mapping[str, str]
    # What an active job does now; None if that is unknown.
    phase: PhaseName | None

    @property
    def shown_title(self) -> str:
        return self.title or agent_on_repo(self.agent, self.repo)

    @property
    def subtitle(self) -> str:
        """Empty if the title says it."""
        return agent_on_repo(self.agent, self.repo) if self.title else ""


class JobPage(msgspec.Struct, frozen=True):
    """`next_before` is the cursor of the next page. `searched_to` is set when the search stopped
    at that time although the page is not full."""

    lines: list[JobLine]
    next_before: str | None
    searched_to: int | None


class _Request(msgspec.Struct, frozen=True):
    title: Any = None
    prompt: Any = None


class _Cost(msgspec.Struct, frozen=True):
    cost_usd: float


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_cost = msgspec.json.Decoder(_Cost).decode


async def list_lines(
    db: Database,
    organization_id: str,
    filter: JobFilter,
    *,
    limit: int,
    before: str | None = None,
) -> JobPage:
    """Newest first; `before` is the `next_before` of the previous page."""
    parameters = filter.parameters(before)
    text = (filter.text or "").strip()
    if any("\0" in str(value) for value in (*parameters.values(), text)):
        # No stored text contains NUL, and PostgreSQL refuses it as a parameter.
        return JobPage([], None, None)
    rows = await db.fetch_all(
        _statement(filter, limit + 1, searched=bool(text)),
        organization_id=organization_id,
        **parameters,
        **_search_parameters(text),
    )
    lines = [_line(row) for row in rows if row["id"] is not None]
    if len(lines) > limit:
        return JobPage(lines[:limit], lines[limit - 1].job_id, None)
    reached = rows[0]["reached"]
    if reached == filter.lower_bound():
        return JobPage(lines, None, None)
    return JobPage(lines, reached, creation_time_ms(reached))


async def failed_lines(
    db: Database, organization_id: str, *, since: int, limit: int
) -> list[JobLine]:
    """Jobs created since then that failed and were not run again, newest first."""
    newest = JobFilter(status="failed", since=since)
    page = await list_lines(db, organization_id, newest, limit=_MAX_FAILED)
    rows = await db.fetch_all(
        "SELECT j.id FROM jobs j WHERE j.id IN (SELECT value FROM each(:ids)) AND EXISTS"
        " (SELECT 1 FROM jobs later WHERE later.organization_id = :organization_id"
        "  AND later.repo = j.repo AND later.id > j.id AND later.agent = j.agent"
        "  AND later.config_override = j.config_override)",
        ids=[line.job_id for line in page.lines],
        organization_id=organization_id,
    )
    repeated = {row["id"] for row in rows}
    return [line for line in page.lines if line.job_id not in repeated][:limit]


async def lines_by_id(db: Database, job_ids: Sequence[str]) -> dict[str, JobLine]:
    rows = await db.fetch_all(
        f"SELECT {_COLUMNS} FROM jobs j WHERE j.id IN (SELECT value FROM each(:ids))", ids=job_ids
    )
    return {row["id"]: _line(row) for row in rows}


async def lines_of_pull(db: Database, repo_id: str, number: int) -> list[JobLine]:
    """The finished and active jobs of a pull request, oldest first."""
    rows = await db.fetch_all(
        f"WITH done AS (SELECT id FROM jobs WHERE repo_id = :repo_id AND pr_number = :number)"
        f" SELECT {_COLUMNS} FROM jobs j WHERE j.id IN (SELECT id FROM done"
        "  UNION SELECT f.id FROM jobs f JOIN done ON f.follows = done.id)"
        " ORDER BY j.id LIMIT 100",
        repo_id=repo_id,
        number=number,
    )
    return [_line(row) for row in rows]


async def latest_check(db: Database, repo_id: str, number: int) -> tuple[str, Verification] | None:
    """The checks of the latest job of a pull request, and the commit that they ran on."""
    row = await db.fetch_one(
        "SELECT head_commit, verification FROM jobs"
        " WHERE repo_id = :repo_id AND pr_number = :number ORDER BY id DESC LIMIT 1",
        repo_id=repo_id,
        number=number,
    )
    check = None if row is None else stored_verification(row["verification"])
    return None if row is None or check is None else (row["head_commit"] or "", check)


def read_cost(usage: str | None) -> float | None:
    return None if usage is None else _decode_cost(usage).cost_usd


def _statement(filter: JobFilter, limit: int, *, searched: bool) -> str:
    conditions = (_HAS_TEXT,) if searched else ()
    page = page_query(
        filter.names(),
        limit=limit,
        scan_size=MAX_SCANNED,
        labels=len(filter.labels),
        conditions=conditions,
    )
    # Returns a row even when no job matches, to tell how far the scan got.
    return (
        f"{page} SELECT reached.id AS reached, {_COLUMNS} FROM reached"
        " LEFT JOIN page ON 1 = 1 LEFT JOIN jobs j ON j.id = page.id ORDER BY j.id DESC"
    )


def _search_parameters(text: str) -> dict[str, str]:
    """Bytes, because only a to z are lowered."""
    lowered = text.encode(errors="replace").lower().decode()
    return {"text": lowered, "pattern": contains_pattern(lowered)}


def _line(row: Row) -> JobLine:
    request = _decode_request(row["config_override"])
    ticket, cause = stored_ticket(row["ticket"]), stored_cause(row["cause"])
    return to_struct(
        row,
        JobLine,
        job_id=row["id"],
        cost_usd=read_cost(row["usage"]),
        title=choose_title(request.title, request.prompt, ticket, cause),
        labels=stored_labels(row["labels"]),
        phase=_phase(row),
    )


def _phase(row: Row) -> PhaseName | None:
    if row["status"] in FINAL:
        return None
    times = JobTimes(row["status"], bool(row["is_claimed"]), row["queued_at"], None)
    return current_phase(row["phases"], times)

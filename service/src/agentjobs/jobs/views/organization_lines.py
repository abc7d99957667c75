"""Organizations with what they use, for operators: counts and amounts, nothing of their content."""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from agentjobs.store.database import Database, Row, to_struct
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_runtime.clock import DAY_MS, SECOND_MS
from agentjobs_runtime.problems import Problem

Order = Literal["name", "waiting", "running", "spending", "newest"]

_WAITING = (
    "(SELECT COUNT(*) FROM job_queue q /*sqlite INDEXED BY job_queue_waiting_in_order */"
    " WHERE q.organization_id = {id} AND q.lease_owner IS NULL)"
)
_OLDEST_WAITING = (
    "(SELECT MIN(j.queued_at) FROM job_queue q CROSS JOIN jobs j"
    " WHERE q.organization_id = {id} AND q.lease_owner IS NULL AND j.id = q.job_id)"
)
_RUNNING = (
    "(SELECT COUNT(*) FROM job_queue q /*sqlite INDEXED BY job_queue_leased */"
    " WHERE q.organization_id = {id} AND q.lease_owner IS NOT NULL)"
)
_SPENT = (
    "(SELECT COALESCE(SUM(s.spent_nanousd), 0) FROM daily_spending s"
    " WHERE s.organization_id = {id} AND s.day >= :first_of_month)"
)
# Each reads an index once for each organization. Of equal ones, the first by name.
_RANKS: dict[Order, str] = {
    "name": "0",
    "waiting": _WAITING,
    "running": _RUNNING,
    "spending": _SPENT,
    "newest": "o.created_at",
}


class OrganizationLine(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    plan: str
    created_at: int
    paused_at: int | None
    daily_budget_nanousd: int | None
    job_budget_nanousd: int | None
    members: int
    repos: int
    waiting: int
    oldest_waiting_at: int | None
    running: int
    spent_this_month_nanousd: int
    spent_today_nanousd: int


async def list_organization_lines(
    db: Database, *, search: str = "", order: Order = "name", limit: int, offset: int = 0
) -> list[OrganizationLine]:
    """`search` is a part of the name. All orders but that of names are descending."""
    rank = _RANKS[order].format(id="o.id")
    page = (
        f"SELECT o.*, {rank} AS rank_value FROM organizations o"
        " WHERE o.name LIKE :pattern ESCAPE '!'"
        " ORDER BY rank_value DESC, o.name LIMIT :limit OFFSET :offset"
    )
    rows = await db.fetch_all(
        _select_lines(page) + " ORDER BY p.rank_value DESC, p.name",
        pattern=contains_pattern(search.lower()),
        limit=limit,
        offset=offset,
        **_days(await db.clock_ms()),
    )
    return [_line(row) for row in rows]


async def find_organization_line(db: Database, name: str) -> OrganizationLine:
    rows = await db.fetch_all(
        _select_lines("SELECT o.* FROM organizations o WHERE o.name = :name"),
        name=name,
        **_days(await db.clock_ms()),
    )
    if not rows:
        raise Problem("not_found", "There is no such organization.")
    return _line(rows[0])


def _select_lines(page: str) -> str:
    """The organizations of the page are selected before anything is counted."""
    return (
        f"WITH p AS ({page}) SELECT p.*,"
        " (SELECT COUNT(*) FROM memberships m WHERE m.organization_id = p.id) AS members,"
        " (SELECT COUNT(*) FROM repos r WHERE r.organization_id = p.id"
        "  AND r.disconnected_at IS NULL) AS repos,"
        f" {_WAITING.format(id='p.id')} AS waiting,"
        f" {_OLDEST_WAITING.format(id='p.id')} AS oldest_waiting_at,"
        f" {_RUNNING.format(id='p.id')} AS running,"
        f" {_SPENT.format(id='p.id')} AS spent_this_month_nanousd,"
        " (SELECT s.spent_nanousd FROM daily_spending s WHERE s.organization_id = p.id"
        "  AND s.day = :today) AS spent_today_nanousd FROM p"
    )


def _days(now: int) -> dict[str, int]:
    """Days since the epoch, in UTC."""
    today = now // DAY_MS
    day_of_month = datetime.fromtimestamp(now / SECOND_MS, UTC).day
    return {"today": today, "first_of_month": today - day_of_month + 1}


def _line(row: Row) -> OrganizationLine:
    # PostgreSQL sums integers to decimals.
    names = ("spent_this_month_nanousd", "spent_today_nanousd")
    return to_struct(row, OrganizationLine, **{name: int(row[name] or 0) for name in names})

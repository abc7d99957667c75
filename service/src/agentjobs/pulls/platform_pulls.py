"""Rows of pull requests that a platform hosts: opened there by a job, kept current by syncs.

Contacts no platform; `platform_sync` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from agentjobs.platforms.protocol import (
    CommentCursor,
    CommentKind,
    PullRequest,
    PullRequestRequest,
    RemotePull,
)
from agentjobs.platforms.text import pull_title
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import DAY_MS, SECOND_MS, now_ms

MAX_WITH_EVENTS = 50
MAX_NEWEST = 50
# How many of the older open ones, and of those that may have been reopened, a full sync reads.
MAX_OLDER = 10
_CURSOR_COLUMNS: Mapping[CommentKind, str] = {
    "comment": "comment_seen",
    "line": "line_comment_seen",
    "review": "review_seen",
}
_REOPENABLE_MS = 14 * DAY_MS
_CLOSED_INTERVAL_MS = 3_600 * SECOND_MS


class PullRow(msgspec.Struct, frozen=True, kw_only=True):
    """`change_reported_at` is when a hook event named it, `synced_at` when it was last read."""

    number: int
    title: str
    state: str
    draft: bool
    head_commit: str
    url: str | None
    comment_seen: int
    # None: the row is older than the column, so comments were never read.
    line_comment_seen: int | None
    review_seen: int | None
    not_found_count: int = 0
    created_at: int = 0
    closed_at: int | None = None
    synced_at: int | None = None
    change_reported_at: int | None = None

    @property
    def comment_cursor(self) -> CommentCursor:
        return CommentCursor(self.comment_seen, self.line_comment_seen, self.review_seen)

    def last_comment_id(self, kind: CommentKind) -> int | None:
        comment_id: int | None = getattr(self, _CURSOR_COLUMNS[kind])
        return comment_id


_FIELDS = ", ".join(PullRow.__struct_fields__)


@dataclass
class PullReading:
    """What came of reading a pull request. `is_handled`: the events that `row` has are handled,
    or, if it is False, it is read again soon."""

    row: PullRow
    not_found_count: int
    is_handled: bool | None = None


async def record_pull(
    tx: Transaction, repo_id: str, request: PullRequestRequest, pull: PullRequest
) -> None:
    """Store the branch's pull request, in place of any earlier one of the branch."""
    await tx.execute(
        "DELETE FROM pull_statuses WHERE repo_id = :repo_id AND number IN (SELECT number FROM pulls"
        "  WHERE repo_id = :repo_id AND head_branch = :head_branch AND number <> :number)",
        repo_id=repo_id,
        head_branch=request.head_branch,
        number=pull.number,
    )
    await tx.execute(
        "DELETE FROM pulls WHERE repo_id = :repo_id AND head_branch = :head_branch"
        " AND number <> :number",
        repo_id=repo_id,
        head_branch=request.head_branch,
        number=pull.number,
    )
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at, url, line_comment_seen, review_seen)"
        " VALUES (:repo_id, :number, :title, '', :head_branch, :base_branch, :head_commit,"
        # A new pull request has no comments; NULL is for rows older than these columns.
        " :base_commit, 'open', :draft, :now, :url, 0, 0)"
        " ON CONFLICT (repo_id, number) DO UPDATE SET head_commit = excluded.head_commit,"
        " draft = excluded.draft, url = excluded.url",
        repo_id=repo_id,
        number=pull.number,
        title=pull_title(request),
        head_branch=request.head_branch,
        base_branch=request.base_branch,
        head_commit=request.head_commit,
        base_commit=request.base_commit,
        draft=pull.draft,
        now=await tx.clock_ms(),
        url=pull.url,
    )


async def pulls_with_events(db: Database, repo_id: str) -> list[PullRow]:
    """Pull requests that hook events named since the last read; one more than a sync reads."""
    rows = await db.fetch_all(
        f"SELECT {_FIELDS} FROM pulls WHERE repo_id = :repo_id AND change_reported_at IS NOT NULL"
        f" AND state <> 'merged' ORDER BY change_reported_at, number LIMIT {MAX_WITH_EVENTS + 1}",
        repo_id=repo_id,
    )
    return [_pull_row(row) for row in rows]


async def followed_pulls(db: Database, repo_id: str) -> list[PullRow]:
    """The open ones and those that were closed recently."""
    rows = await db.fetch_all(
        f"SELECT {_FIELDS} FROM pulls WHERE repo_id = :repo_id AND state <> 'merged'"
        f" AND (state = 'open' OR closed_at + {_REOPENABLE_MS} > {DATABASE_NOW})",
        repo_id=repo_id,
        now=now_ms(),
    )
    return [_pull_row(row) for row in rows]


def choose_for_full_sync(followed: Sequence[PullRow], now: int) -> list[PullRow]:
    """The pull requests that a full sync reads, the longest unread first."""
    opened = [row for row in followed if row.state == "open"]
    opened.sort(key=lambda row: (row.created_at, row.number), reverse=True)
    due_before = now - _CLOSED_INTERVAL_MS
    closed = [row for row in followed if row.state == "closed" and _read_at(row) <= due_before]
    chosen = [
        *opened[:MAX_NEWEST],
        *sorted(opened[MAX_NEWEST:], key=_read_at)[:MAX_OLDER],
        *sorted(closed, key=_read_at)[:MAX_OLDER],
    ]
    return sorted(chosen, key=lambda row: (_read_at(row), row.number))


async def update_pull(tx: Transaction, repo_id: str, row: PullRow, remote: RemotePull) -> bool:
    """Store what the platform says; False if the row changed since it was read."""
    now = await tx.clock_ms()
    changed = await tx.execute(
        "UPDATE pulls SET title = :title, state = :state, draft = :draft,"
        " head_commit = :head_commit, url = :url, merged_at = :merged_at, closed_at = :closed_at"
        " WHERE repo_id = :repo_id AND number = :number"
        # What a job wrote meanwhile is newer than the platform's response.
        " AND state = :was_state AND draft = :was_draft AND head_commit = :was_head_commit",
        repo_id=repo_id,
        number=row.number,
        title=remote.title,
        state=remote.state,
        draft=remote.draft,
        head_commit=remote.head_commit,
        url=remote.url,
        merged_at=now if remote.state == "merged" else None,
        closed_at=(row.closed_at or now) if remote.state == "closed" else None,
        was_state=row.state,
        was_draft=row.draft,
        was_head_commit=row.head_commit,
    )
    return bool(changed)


async def record_end(tx: Transaction, repo_id: str, remote: RemotePull, ended_by: str) -> bool:
    """Store that the service merged or closed it; False if that is stored already."""
    now = await tx.clock_ms()
    changed = await tx.execute(
        "UPDATE pulls SET state = :state, head_commit = :head_commit, ended_by = :ended_by,"
        " merged_at = COALESCE(:merged_at, merged_at), closed_at = :closed_at"
        # A sync may have seen it before.
        " WHERE repo_id = :repo_id AND number = :number AND (state = 'open' OR ended_by IS NULL)",
        repo_id=repo_id,
        number=remote.number,
        state=remote.state,
        head_commit=remote.head_commit,
        ended_by=ended_by,
        merged_at=now if remote.state == "merged" else None,
        closed_at=now if remote.state == "closed" else None,
    )
    return bool(changed)


async def advance_cursor(
    tx: Transaction, repo_id: str, number: int, kind: CommentKind, comment_id: int
) -> None:
    column = _CURSOR_COLUMNS[kind]
    await tx.execute(
        f"UPDATE pulls SET {column} = :comment_id WHERE repo_id = :repo_id"
        f" AND number = :number AND COALESCE({column}, -1) < :comment_id",
        repo_id=repo_id,
        number=number,
        comment_id=comment_id,
    )


async def record_reading(tx: Transaction, repo_id: str, reading: PullReading) -> None:
    reported = "change_reported_at"
    if reading.is_handled is not None:
        # An event that was received meanwhile stays.
        reported = "NULLIF(change_reported_at, CAST(:reported AS BIGINT))"
    if reading.is_handled is False:
        reported = "COALESCE(change_reported_at, :now)"
    await tx.execute(
        f"UPDATE pulls SET synced_at = :now, not_found_count = :count,"
        f" change_reported_at = {reported} WHERE repo_id = :repo_id AND number = :number",
        repo_id=repo_id,
        number=reading.row.number,
        count=reading.not_found_count,
        reported=reading.row.change_reported_at,
        now=await tx.clock_ms(),
    )


async def mark_event(
    tx: Transaction, connection_id: str, external_id: str | None, number: int
) -> bool:
    """Note a hook event about a pull request; False if the service has no such open one."""
    changed = await tx.execute(
        "UPDATE pulls SET change_reported_at = :now WHERE number = :number AND state <> 'merged'"
        " AND repo_id IN (SELECT id FROM repos WHERE connection_id = :connection_id"
        "  AND disconnected_at IS NULL"
        "  AND (CAST(:external_id AS TEXT) IS NULL OR external_id = :external_id))",
        number=number,
        now=await tx.clock_ms(),
        connection_id=connection_id,
        external_id=external_id,
    )
    return bool(changed)


def _read_at(row: PullRow) -> int:
    return row.synced_at or 0


def _pull_row(row: Row) -> PullRow:
    return to_struct(row, PullRow, draft=bool(row["draft"]))

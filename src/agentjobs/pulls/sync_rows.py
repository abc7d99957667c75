"""Rows of pull requests while their platform is asked about them: which ones, and what it said.

Asks nobody anything; `pull_sync` does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.forges.protocol import CommentCursor, CommentKind, RemotePull
from agentjobs.store.database import Database, Row, Transaction

# In the transaction that writes it down: a draft was marked ready.
OnReady = Callable[[Transaction, str, int], Awaitable[None]]

MOST_TOLD = 50
MOST_NEWEST = 50
# Of those that are no longer among the newest, and of those that may have been opened again.
MOST_IN_TURN = 10
_SEEN: Mapping[CommentKind, str] = {
    "comment": "comment_seen",
    "line": "line_comment_seen",
    "review": "review_seen",
}
_CLOSED_FOR_MS = 14 * DAY_MS
_CLOSED_ASKED_MS = 3_600 * SECOND_MS


class PullRow(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    title: str
    state: str
    draft: bool
    head_commit: str
    url: str | None
    comment_seen: int
    # None: the row is older than the column, and nobody ever looked.
    line_comment_seen: int | None
    review_seen: int | None
    missing_looks: int = 0
    created_at: int = 0
    closed_at: int | None = None
    asked_at: int | None = None
    told_at: int | None = None

    @property
    def heard(self) -> CommentCursor:
        return CommentCursor(self.comment_seen, self.line_comment_seen, self.review_seen)

    def seen(self, kind: CommentKind) -> int | None:
        number: int | None = getattr(self, _SEEN[kind])
        return number


_FIELDS = ", ".join(PullRow.__struct_fields__)


async def told_pulls(db: Database, repo_id: str) -> list[PullRow]:
    """Those that the platform told of since it was asked; one more than are asked at once."""
    rows = await db.fetch_all(
        f"SELECT {_FIELDS} FROM pulls WHERE repo_id = :repo_id AND told_at IS NOT NULL"
        f" AND state <> 'merged' ORDER BY told_at, number LIMIT {MOST_TOLD + 1}",
        repo_id=repo_id,
    )
    return [_pull_row(row) for row in rows]


async def followed_pulls(db: Database, repo_id: str) -> list[PullRow]:
    """The open ones, and those that were closed not long ago."""
    rows = await db.fetch_all(
        f"SELECT {_FIELDS} FROM pulls WHERE repo_id = :repo_id AND state <> 'merged'"
        " AND (state = 'open' OR closed_at > :since)",
        repo_id=repo_id,
        since=now_ms() - _CLOSED_FOR_MS,
    )
    return [_pull_row(row) for row in rows]


def in_turn(followed: Sequence[PullRow], now: int) -> list[PullRow]:
    """Whom a look at the whole repository asks about; whoever waits longest comes first."""
    opened = [row for row in followed if row.state == "open"]
    opened.sort(key=lambda row: (row.created_at, row.number), reverse=True)
    is_due = now - _CLOSED_ASKED_MS
    closed = [row for row in followed if row.state == "closed" and _asked(row) <= is_due]
    chosen = [
        *opened[:MOST_NEWEST],
        *sorted(opened[MOST_NEWEST:], key=_asked)[:MOST_IN_TURN],
        *sorted(closed, key=_asked)[:MOST_IN_TURN],
    ]
    return sorted(chosen, key=lambda row: (_asked(row), row.number))


async def update(
    tx: Transaction, repo_id: str, row: PullRow, found: RemotePull, on_ready: OnReady
) -> bool:
    """False: somebody else wrote meanwhile."""
    changed = await tx.execute(
        "UPDATE pulls SET title = :title, state = :state, draft = :draft,"
        " head_commit = :head_commit, url = :url, merged_at = :merged_at, closed_at = :closed_at"
        " WHERE repo_id = :repo_id AND number = :number"
        # A job may have written since it was read: what it did is newer than what we were told.
        " AND state = :was_state AND draft = :was_draft AND head_commit = :was_head_commit",
        repo_id=repo_id,
        number=row.number,
        title=found.title,
        state=found.state,
        draft=found.draft,
        head_commit=found.head_commit,
        url=found.url,
        merged_at=now_ms() if found.state == "merged" else None,
        closed_at=(row.closed_at or now_ms()) if found.state == "closed" else None,
        was_state=row.state,
        was_draft=row.draft,
        was_head_commit=row.head_commit,
    )
    if changed and row.draft and not found.draft and found.state == "open":
        await on_ready(tx, repo_id, row.number)
    return bool(changed)


async def mark_heard(
    tx: Transaction, repo_id: str, number: int, kind: CommentKind, comment_id: int
) -> None:
    column = _SEEN[kind]
    await tx.execute(
        f"UPDATE pulls SET {column} = :comment_id WHERE repo_id = :repo_id"
        f" AND number = :number AND COALESCE({column}, -1) < :comment_id",
        repo_id=repo_id,
        number=number,
        comment_id=comment_id,
    )


class Asked(msgspec.Struct, frozen=True):
    """By numbers. `done`: what was told before `since` is known now; `found`: it is there;
    `missing`: it is not; `waiting`: it is to be asked about again soon."""

    since: int
    numbers: list[int]
    done: list[int]
    found: list[int]
    missing: list[int]
    waiting: list[int]


async def mark_asked(tx: Transaction, repo_id: str, asked: Asked) -> None:
    """All at once, because a look asks about many."""
    now = now_ms()
    for change, numbers, given in (
        ("asked_at = :now", asked.numbers, {"now": now}),
        (
            "told_at = CASE WHEN told_at > :since THEN told_at END",
            asked.done,
            {"since": asked.since},
        ),
        ("missing_looks = 0", asked.found, {}),
        ("missing_looks = missing_looks + 1", asked.missing, {}),
        ("told_at = COALESCE(told_at, :now)", asked.waiting, {"now": now}),
    ):
        if numbers:
            await tx.execute(
                f"UPDATE pulls SET {change} WHERE repo_id = :repo_id"
                " AND CAST(number AS TEXT) IN (SELECT value FROM each(:numbers))",
                repo_id=repo_id,
                numbers=[str(number) for number in numbers],
                **given,
            )


def _asked(row: PullRow) -> int:
    return row.asked_at or 0


def _pull_row(row: Row) -> PullRow:
    fields = {name: row[name] for name in PullRow.__struct_fields__}
    return PullRow(**{**fields, "draft": bool(row["draft"])})

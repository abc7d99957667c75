"""Keeps the rows of pull requests as their platform has them, and hears what is said on them.

Only those that the service opened have rows. What a comment means is the listener's matter.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from agentjobs.clock import now_ms
from agentjobs.forges.protocol import Comment, ForgeError, Platform, PullNow
from agentjobs.forges.words import MOST_TITLE_CHARACTERS, shown
from agentjobs.problems import Problem
from agentjobs.repos.sync_claims import DueSync, PlatformRepo
from agentjobs.store.database import Database, Row, StoreError, Transaction

# In the transaction that writes it down: a draft was marked ready.
OnReady = Callable[[Transaction, str, int], Awaitable[None]]
# A comment with a higher number than all before; heard again if it raises.
OnComment = Callable[[PlatformRepo, int, Comment, Platform], Awaitable[None]]

MOST_TRIES = 3
_log = logging.getLogger(__name__)


class PullRow(msgspec.Struct, frozen=True):
    number: int
    title: str
    state: str
    draft: bool
    head_commit: str
    url: str | None
    comment_seen: int


@dataclass
class PullSync:
    """`tries` counts how often a comment failed its listener, as long as this process lives."""

    db: Database
    on_ready: OnReady
    on_comment: OnComment
    tries: dict[tuple[str, int, int], int] = field(default_factory=dict)

    async def sync(self, due: DueSync, repo: PlatformRepo, platform: Platform) -> None:
        """Raises ForgeError, after the others had their turn where that makes sense."""
        trouble: ForgeError | None = None
        for row in await _rows(self.db, due):
            try:
                await self._sync_one(repo, row, platform)
            except ForgeError as error:
                if error.fault in {"away", "unauthorized"}:
                    raise
                trouble = trouble or error
        if trouble is not None:
            raise trouble

    async def _sync_one(self, repo: PlatformRepo, row: PullRow, platform: Platform) -> None:
        try:
            found = await platform.pull(repo.address, row.number)
        except ForgeError as error:
            if error.fault != "gone":
                raise
            # The repository answered, so it is the pull request that was removed.
            found = msgspec.structs.replace(_as_it_was(row), state="closed")
        found = _storable(found)
        if found != _as_it_was(row):
            await self.db.transact(_update, repo, row, found, self.on_ready)
        if found.state == "open":
            await self._hear(repo, row, platform)

    async def _hear(self, repo: PlatformRepo, row: PullRow, platform: Platform) -> None:
        comments = await platform.comments(repo.address, row.number, row.comment_seen)
        for comment in sorted(comments, key=lambda one: one.id):
            if comment.id > row.comment_seen:
                await self._hear_one(repo, row.number, comment, platform)
                await self.db.transact(_mark_heard, repo.id, row.number, comment.id)

    async def _hear_one(
        self, repo: PlatformRepo, number: int, comment: Comment, platform: Platform
    ) -> None:
        key = (repo.id, number, comment.id)
        try:
            await self.on_comment(repo, number, comment, platform)
        except StoreError:
            raise
        except Exception as error:
            if isinstance(error, ForgeError) and error.fault in {"away", "unauthorized"}:
                raise
            tries = self.tries.get(key, 0) + 1
            self.tries[key] = tries
            fields = {"repo_id": repo.id, "pull": number, "comment": comment.id, "tries": tries}
            if tries < MOST_TRIES:
                _log.warning("a comment was not handled", exc_info=error, extra={"fields": fields})
                raise ForgeError(
                    f"A comment on #{number} was not handled: {_words(error)}"
                ) from None
            _log.exception("a comment is passed over", extra={"fields": fields})
        self.tries.pop(key, None)


async def _rows(db: Database, due: DueSync) -> list[PullRow]:
    """The open ones, and of the closed ones those the platform told of since the last look."""
    rows = await db.fetch_all(
        "SELECT p.number, p.title, p.state, p.draft, p.head_commit, p.url, p.comment_seen"
        " FROM pulls p WHERE p.repo_id = :repo_id AND (p.state = 'open' OR p.state = 'closed'"
        "  AND EXISTS (SELECT 1 FROM forge_hints h WHERE h.connection_id = :connection_id"
        "   AND h.external_id = :external_id AND h.number = p.number AND h.received_at >= :since))"
        " ORDER BY p.number",
        repo_id=due.repo.id,
        connection_id=due.repo.connection_id,
        external_id=due.repo.external_id,
        since=due.synced_at or 0,
    )
    return [_pull_row(row) for row in rows]


def _pull_row(row: Row) -> PullRow:
    fields = {name: row[name] for name in PullRow.__struct_fields__}
    return PullRow(**{**fields, "draft": bool(row["draft"])})


def _as_it_was(row: PullRow) -> PullNow:
    return PullNow(
        row.number,
        row.title,
        row.state,  # type: ignore[arg-type]  # the column has no other words
        row.draft,
        row.head_commit,
        row.url or "",
    )


def _storable(pull: PullNow) -> PullNow:
    return msgspec.structs.replace(pull, title=shown(pull.title, MOST_TITLE_CHARACTERS))


async def _update(
    tx: Transaction, repo: PlatformRepo, row: PullRow, found: PullNow, on_ready: OnReady
) -> None:
    changed = await tx.execute(
        "UPDATE pulls SET title = :title, state = :state, draft = :draft,"
        " head_commit = :head_commit, url = :url, merged_at = :merged_at, closed_at = :closed_at"
        " WHERE repo_id = :repo_id AND number = :number"
        # A job may have written since it was read: what it did is newer than what we were told.
        " AND state = :was_state AND draft = :was_draft AND head_commit = :was_head_commit",
        repo_id=repo.id,
        number=row.number,
        title=found.title,
        state=found.state,
        draft=found.draft,
        head_commit=found.head_commit,
        url=found.url,
        merged_at=now_ms() if found.state == "merged" else None,
        closed_at=now_ms() if found.state == "closed" else None,
        was_state=row.state,
        was_draft=row.draft,
        was_head_commit=row.head_commit,
    )
    if not changed:
        return
    tx.announce(f"events:{repo.organization_id}")
    if row.draft and not found.draft and found.state == "open":
        await on_ready(tx, repo.id, row.number)


async def _mark_heard(tx: Transaction, repo_id: str, number: int, comment_id: int) -> None:
    await tx.execute(
        "UPDATE pulls SET comment_seen = :comment_id WHERE repo_id = :repo_id"
        " AND number = :number AND comment_seen < :comment_id",
        repo_id=repo_id,
        number=number,
        comment_id=comment_id,
    )


def _words(error: Exception) -> str:
    """Its own only where they were written for people."""
    told = isinstance(error, Problem | ForgeError)
    return str(error) if told else "something failed inside the service; its log says what."

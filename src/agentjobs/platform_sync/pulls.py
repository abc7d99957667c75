"""Keeps the rows of pull requests as their platform has them, and hears what is said on them.

Only those that the service opened have rows. What a comment means is the listener's matter.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from agentjobs.clock import now_ms
from agentjobs.forges.protocol import Comment, CommentKind, ForgeError, Platform, RemotePull
from agentjobs.forges.text import MOST_TITLE_CHARACTERS, shown
from agentjobs.platform_sync.claims import DueSync, PlatformRepo
from agentjobs.problems import Problem
from agentjobs.pulls import sync_rows
from agentjobs.pulls.sync_rows import MOST_TOLD, Asked, OnReady, PullRow
from agentjobs.store.database import Database, StoreError, Transaction

__all__ = ["CommentDeferred", "OnComment", "OnReady", "PullSync", "PullsSeen"]

# A comment with a higher number than all before; heard again if it raises.
OnComment = Callable[[PlatformRepo, int, Comment, Platform], Awaitable[None]]

MOST_TRIES = 3
ANSWER_SECONDS = 120.0
# Removed for good only when its platform did not know it so often in a row.
MOST_MISSING = 3
# A platform that does not answer is not the comment's fault; only in the end it may be.
_AWAY_TRY = 1 / 20
_MOST_REMEMBERED = 10_000
_SLOW = "Its platform is slow: not all pull requests were read within 2 minutes, the rest is later."
_log = logging.getLogger(__name__)

_KINDS: tuple[CommentKind, ...] = ("comment", "line", "review")
_Key = tuple[str, int, CommentKind, int]


class CommentDeferred(Exception):
    """The listener cannot know yet what a comment means; it is to be heard again soon."""


class PullsSeen(msgspec.Struct, frozen=True):
    """`note`: what could not be read or handled; `is_waiting`: some are to be asked again soon."""

    note: str | None = None
    is_waiting: bool = False


@dataclass
class _Look:
    """`is_there`: the repository itself has answered, just now."""

    repo: PlatformRepo
    platform: Platform
    is_there: bool
    since: int = field(default_factory=now_ms)
    asked: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    aways: list[ForgeError] = field(default_factory=list)

    def result(self) -> Asked:
        # Where the repository did not answer itself, it may be the one that is gone.
        missing = self.gone if self.is_there else []
        return Asked(self.since, self.asked, self.done, self.found, missing, self.waiting)


@dataclass
class PullSync:
    """As long as this process lives `tries` counts how often a comment failed its listener, and
    `ahead` are those that were heard although one before them failed."""

    db: Database
    on_ready: OnReady
    on_comment: OnComment
    tries: dict[_Key, float] = field(default_factory=dict)
    ahead: set[_Key] = field(default_factory=set)

    async def sync(
        self, due: DueSync, repo: PlatformRepo, platform: Platform, *, is_there: bool
    ) -> PullsSeen:
        """Raises ForgeError where the platform is away or does not know us; whatever concerns one
        pull request or one comment only is a note."""
        look = _Look(repo, platform, is_there)
        told = await sync_rows.told_pulls(self.db, repo.id)
        rows = await self._chosen(due, told[:MOST_TOLD])
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                for row in rows:
                    await self._ask(look, row)
        except TimeoutError:
            look.notes.append(_SLOW)
        finally:
            if look.asked:
                await self.db.transact(sync_rows.mark_asked, repo.id, look.result())
        if look.aways and not is_there:
            raise look.aways[0]
        note = look.notes[0] if look.notes else None
        return PullsSeen(note, is_waiting=bool(look.waiting) or len(told) > MOST_TOLD)

    async def _chosen(self, due: DueSync, told: Sequence[PullRow]) -> list[PullRow]:
        if not due.is_whole:
            return list(told)
        followed = await sync_rows.followed_pulls(self.db, due.repo.id)
        first = {row.number for row in told}
        others = sync_rows.in_turn(followed, now_ms())
        return [*told, *(row for row in others if row.number not in first)]

    async def _ask(self, look: _Look, row: PullRow) -> None:
        look.asked.append(row.number)
        try:
            is_heard = await self._sync_one(look, row)
        except ForgeError as error:
            if error.fault == "unauthorized" or (error.fault == "away" and look.aways):
                raise
            if error.fault == "away":
                # Perhaps it is this one's fault alone: the next one tells.
                look.aways.append(error)
            look.notes.append(str(error))
        else:
            (look.done if is_heard else look.waiting).append(row.number)

    async def _sync_one(self, look: _Look, row: PullRow) -> bool:
        """False: something that was said is to be heard again."""
        found = await self._found(look, row)
        if found != _as_it_was(row):
            await self.db.transact(self._update, look.repo, row, found)
        return found.state != "open" or await self._hear(look, row)

    async def _found(self, look: _Look, row: PullRow) -> RemotePull:
        try:
            found = await look.platform.pull(look.repo.address, row.number)
        except ForgeError as error:
            if error.fault != "gone":
                raise
            look.gone.append(row.number)
            was = _as_it_was(row)
            is_removed = look.is_there and row.missing_looks + 1 >= MOST_MISSING
            return msgspec.structs.replace(was, state="closed") if is_removed else was
        look.found.append(row.number)
        return msgspec.structs.replace(found, title=shown(found.title, MOST_TITLE_CHARACTERS))

    async def _update(
        self, tx: Transaction, repo: PlatformRepo, row: PullRow, found: RemotePull
    ) -> None:
        if await sync_rows.update(tx, repo.id, row, found, self.on_ready):
            tx.announce(f"events:{repo.organization_id}")

    async def _hear(self, look: _Look, row: PullRow) -> bool:
        if row.number in look.gone:
            return True
        told = await look.platform.comments(look.repo.address, row.number, row.heard)
        is_all_heard = True
        for kind in _KINDS:
            comments = sorted((one for one in told if one.kind == kind), key=lambda one: one.id)
            seen = row.seen(kind)
            if seen is None:
                # What was said before anybody listened is no order of today.
                newest = comments[-1].id if comments else 0
                await self.db.transact(sync_rows.mark_heard, look.repo.id, row.number, kind, newest)
                continue
            newer = [one for one in comments if one.id > seen]
            is_all_heard = await self._hear_newer(look, row, newer) and is_all_heard
        return is_all_heard

    async def _hear_newer(self, look: _Look, row: PullRow, comments: Sequence[Comment]) -> bool:
        """Of one kind, the oldest first."""
        is_behind = False
        for comment in comments:
            key = (look.repo.id, row.number, comment.kind, comment.id)
            try:
                is_heard = await self._hear_one(look, key, comment)
            except CommentDeferred:
                return False
            if not is_heard:
                is_behind = True
            elif is_behind:
                self.ahead.add(key)
            else:
                await self.db.transact(sync_rows.mark_heard, *key)
                self.ahead.discard(key)
        return not is_behind

    async def _hear_one(self, look: _Look, key: _Key, comment: Comment) -> bool:
        """False: it failed, and is to be tried again. Raises CommentDeferred."""
        if key in self.ahead:
            return True
        try:
            await self.on_comment(look.repo, key[1], comment, look.platform)
        except (CommentDeferred, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a stranger wrote, the others are heard
            is_away = isinstance(error, ForgeError) and error.fault in {"away", "unauthorized"}
            if self._is_tried_again(key, error, _AWAY_TRY if is_away else 1):
                look.notes.append(f"A comment on #{key[1]} was not handled: {_words(error)}")
                if is_away:
                    raise CommentDeferred from None
                return False
        self.tries.pop(key, None)
        return True

    def _is_tried_again(self, key: _Key, error: Exception, weight: float) -> bool:
        if len(self.tries) + len(self.ahead) >= _MOST_REMEMBERED:
            self.tries.clear()
            self.ahead.clear()
        tries = self.tries[key] = self.tries.get(key, 0) + weight
        fields = {"repo_id": key[0], "pull": key[1], key[2]: key[3], "tries": tries}
        if tries < MOST_TRIES:
            _log.warning("a comment was not handled", exc_info=error, extra={"fields": fields})
            return True
        _log.error("a comment is passed over", exc_info=error, extra={"fields": fields})
        return False


def _as_it_was(row: PullRow) -> RemotePull:
    return RemotePull(
        row.number,
        row.title,
        row.state,  # type: ignore[arg-type]  # the column has no other words
        row.draft,
        row.head_commit,
        row.url or "",
    )


def _words(error: Exception) -> str:
    """Its own only where they were written for people."""
    told = isinstance(error, Problem | ForgeError)
    return str(error) if told else "something failed inside the service; its log says what."

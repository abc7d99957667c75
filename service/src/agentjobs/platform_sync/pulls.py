"""Syncs the rows of pull requests with their platform and handles new comments on them.

Only pull requests that the service opened have rows.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.review import request_review
from agentjobs.platform_sync.branches import record_ended_pull
from agentjobs.platform_sync.claims import DueSync, PlatformRepo
from agentjobs.platform_sync.comments import CommentDeferred, handle_comment
from agentjobs.platform_sync.refusals import Refusals
from agentjobs.platforms.http.traffic import PollsPaused
from agentjobs.platforms.protocol import Comment, CommentKind, Platform, PlatformError, RemotePull
from agentjobs.platforms.text import MAX_TITLE_CHARACTERS, one_line
from agentjobs.pulls import platform_pulls
from agentjobs.pulls.platform_pulls import MAX_WITH_EVENTS, PullRow, ReadPulls
from agentjobs.pulls.status_rows import look_again
from agentjobs.store.database import StoreError, Transaction
from agentjobs_runtime.problems import Problem

MAX_ATTEMPTS = 3
TIMEOUT_SECONDS = 120.0
# A pull request counts as deleted once its platform did not find it so often in a row.
MAX_MISSING = 3
# An unavailable platform is not the comment's fault, so such an attempt counts little.
_UNAVAILABLE_ATTEMPT = 1 / 20
_MAX_REMEMBERED = 10_000
_SLOW = "The platform is slow: not all pull requests were read within 2 minutes; more follow later."
_log = logging.getLogger(__name__)

_KINDS: tuple[CommentKind, ...] = ("comment", "line", "review")
# Repository, pull request, kind, comment.
_CommentKey = tuple[str, int, CommentKind, int]


class PullSyncResult(msgspec.Struct, frozen=True):
    """`note`: what could not be read or handled; `is_incomplete`: read some again soon."""

    note: str | None = None
    is_incomplete: bool = False


@dataclass
class _Run:
    """One sync of one repository's pull requests.

    `is_repo_present`: the platform has just returned the repository itself.
    """

    repo: PlatformRepo
    platform: Platform
    is_repo_present: bool
    since: int
    read: list[int] = field(default_factory=list)
    current: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    deferred: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unavailable: list[PlatformError] = field(default_factory=list)

    def result(self) -> ReadPulls:
        # If the platform did not return the repository, the whole repository may be missing.
        missing = self.missing if self.is_repo_present else []
        return ReadPulls(self.since, self.read, self.current, self.present, missing, self.deferred)


@dataclass
class PullSync:
    """One per process, in which `attempts` counts failures per comment; `handled_early` are
    comments that were handled although an earlier one failed."""

    context: JobsContext
    attempts: dict[_CommentKey, float] = field(default_factory=dict)
    handled_early: set[_CommentKey] = field(default_factory=set)
    refusals: Refusals = field(default_factory=Refusals)

    async def sync(
        self, due: DueSync, repo: PlatformRepo, platform: Platform, *, is_repo_present: bool
    ) -> PullSyncResult:
        """Raises PlatformError if the platform is unavailable or refuses the credential; errors
        that concern a single pull request or comment become a note."""
        db = self.context.db
        run = _Run(repo, platform, is_repo_present, since=await db.clock_ms())
        with_events = await platform_pulls.pulls_with_events(db, repo.id)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for row in await self._choose(due, with_events[:MAX_WITH_EVENTS]):
                    await self._read(run, row)
        except TimeoutError:
            run.notes.append(_SLOW)
        finally:
            if run.read:
                await db.transact(platform_pulls.mark_read, repo.id, run.result())
        if run.unavailable and not is_repo_present:
            raise run.unavailable[0]
        note = run.notes[0] if run.notes else None
        is_incomplete = bool(run.deferred) or len(with_events) > MAX_WITH_EVENTS
        return PullSyncResult(note, is_incomplete)

    async def _choose(self, due: DueSync, with_events: Sequence[PullRow]) -> list[PullRow]:
        if not due.is_full:
            return list(with_events)
        followed = await platform_pulls.followed_pulls(self.context.db, due.repo.id)
        first = {row.number for row in with_events}
        others = platform_pulls.choose_for_full_sync(followed, due.claimed_at)
        return [*with_events, *(row for row in others if row.number not in first)]

    async def _read(self, run: _Run, row: PullRow) -> None:
        run.read.append(row.number)
        try:
            is_current = await self._sync_pull(run, row)
        except PlatformError as error:
            is_unavailable = error.fault == "away" and run.unavailable
            if error.fault == "unauthorized" or is_unavailable or isinstance(error, PollsPaused):
                raise
            if error.fault == "away":
                # Only this pull request may be affected: the next one shows it.
                run.unavailable.append(error)
            run.notes.append(str(error))
        else:
            (run.current if is_current else run.deferred).append(row.number)

    async def _sync_pull(self, run: _Run, row: PullRow) -> bool:
        """False if a comment has to be handled again."""
        remote = await self._fetch(run, row)
        if remote != _to_remote(row):
            await self.context.db.transact(self._update, run.repo, row, remote)
        return remote.state != "open" or await self._handle_comments(run, row)

    async def _fetch(self, run: _Run, row: PullRow) -> RemotePull:
        try:
            remote = await run.platform.pull(run.repo.address, row.number)
        except PlatformError as error:
            if error.fault != "gone":
                raise
            run.missing.append(row.number)
            stored = _to_remote(row)
            is_deleted = run.is_repo_present and row.not_found_count + 1 >= MAX_MISSING
            return msgspec.structs.replace(stored, state="closed") if is_deleted else stored
        run.present.append(row.number)
        return msgspec.structs.replace(remote, title=one_line(remote.title, MAX_TITLE_CHARACTERS))

    async def _update(
        self, tx: Transaction, repo: PlatformRepo, row: PullRow, remote: RemotePull
    ) -> None:
        if not await platform_pulls.update_pull(tx, repo.id, row, remote):
            return
        await record_ended_pull(tx, repo.id, remote)
        if row.head_commit != remote.head_commit:
            await look_again(tx, repo.id, row.number)
        if row.draft and not remote.draft and remote.state == "open":
            await request_review(tx, repo.id, row.number)
        tx.announce(f"events:{repo.organization_id}")

    async def _handle_comments(self, run: _Run, row: PullRow) -> bool:
        if row.number in run.missing:
            return True
        comments = await run.platform.comments(run.repo.address, row.number, row.comment_cursor)
        is_all_handled = True
        for kind in _KINDS:
            of_kind = sorted(
                (comment for comment in comments if comment.kind == kind),
                key=lambda comment: comment.id,
            )
            last_id = row.last_comment_id(kind)
            if last_id is None:
                # Comments older than the cursor start nothing.
                newest = of_kind[-1].id if of_kind else 0
                await self._advance((run.repo.id, row.number, kind, newest))
                continue
            newer = [comment for comment in of_kind if comment.id > last_id]
            is_all_handled = await self._handle_newer(run, row, newer) and is_all_handled
        return is_all_handled

    async def _handle_newer(self, run: _Run, row: PullRow, comments: Sequence[Comment]) -> bool:
        """Comments of one kind, the oldest first; False if some have to be handled again."""
        has_failed = False
        for comment in comments:
            key = (run.repo.id, row.number, comment.kind, comment.id)
            try:
                is_handled = await self._handle(run, key, comment)
            except CommentDeferred:
                return False
            if not is_handled:
                has_failed = True
            elif has_failed:
                self.handled_early.add(key)
            else:
                await self._advance(key)
                self.handled_early.discard(key)
        return not has_failed

    async def _advance(self, key: _CommentKey) -> None:
        await self.context.db.transact(platform_pulls.advance_cursor, *key)

    async def _handle(self, run: _Run, key: _CommentKey, comment: Comment) -> bool:
        """False if it failed and should be tried again. Raises CommentDeferred."""
        if key in self.handled_early:
            return True
        try:
            note = await handle_comment(
                self.context, run.repo, key[1], comment, run.platform, self.refusals
            )
        except (CommentDeferred, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - one comment must not block the others
            is_unavailable = isinstance(error, PlatformError) and error.fault in {
                "away",
                "unauthorized",
            }
            if self._may_retry(key, error, _UNAVAILABLE_ATTEMPT if is_unavailable else 1):
                run.notes.append(f"A comment on #{key[1]} was not handled: {_reason(error)}")
                if is_unavailable:
                    raise CommentDeferred from None
                return False
        else:
            run.notes += [note] if note else []
        self.attempts.pop(key, None)
        return True

    def _may_retry(self, key: _CommentKey, error: Exception, weight: float) -> bool:
        if len(self.attempts) + len(self.handled_early) >= _MAX_REMEMBERED:
            self.attempts.clear()
            self.handled_early.clear()
        attempts = self.attempts[key] = self.attempts.get(key, 0) + weight
        fields = {"repo_id": key[0], "pull": key[1], key[2]: key[3], "attempts": attempts}
        if attempts < MAX_ATTEMPTS:
            _log.warning("a comment was not handled", exc_info=error, extra={"fields": fields})
            return True
        _log.error("a comment is skipped", exc_info=error, extra={"fields": fields})
        return False


def _to_remote(row: PullRow) -> RemotePull:
    return RemotePull(
        row.number,
        row.title,
        row.state,  # type: ignore[arg-type]  # the column has no other values
        row.draft,
        row.head_commit,
        row.url or "",
    )


def _reason(error: Exception) -> str:
    """Messages of other exceptions may contain secrets."""
    is_public = isinstance(error, Problem | PlatformError)
    return str(error) if is_public else "an internal error occurred; see the service's log."

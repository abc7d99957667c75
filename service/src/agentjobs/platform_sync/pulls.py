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
from agentjobs.platforms.http.traffic import PollsPaused
from agentjobs.platforms.protocol import Comment, CommentKind, Platform, PlatformError, RemotePull
from agentjobs.platforms.text import MAX_TITLE_CHARACTERS, one_line
from agentjobs.pulls import platform_pulls
from agentjobs.pulls.platform_pulls import MAX_WITH_EVENTS, PullReading, PullRow
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
    is_incomplete: bool
    notes: list[str] = field(default_factory=list)
    unavailable: list[PlatformError] = field(default_factory=list)


@dataclass
class PullSync:
    """One per process, in which `attempts` counts failures per comment."""

    context: JobsContext
    attempts: dict[_CommentKey, float] = field(default_factory=dict)

    async def sync(
        self, due: DueSync, repo: PlatformRepo, platform: Platform, *, is_repo_present: bool
    ) -> PullSyncResult:
        """Raises PlatformError if the platform is unavailable or refuses the credential; errors
        that concern a single pull request or comment become a note."""
        with_events = await platform_pulls.pulls_with_events(self.context.db, repo.id)
        run = _Run(repo, platform, is_repo_present, len(with_events) > MAX_WITH_EVENTS)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for row in await self._choose(due, with_events[:MAX_WITH_EVENTS]):
                    await self._read(run, row)
        except TimeoutError:
            run.notes.append(_SLOW)
        if run.unavailable and not is_repo_present:
            raise run.unavailable[0]
        return PullSyncResult(run.notes[0] if run.notes else None, run.is_incomplete)

    async def _choose(self, due: DueSync, with_events: Sequence[PullRow]) -> list[PullRow]:
        if not due.is_full:
            return list(with_events)
        followed = await platform_pulls.followed_pulls(self.context.db, due.repo.id)
        first = {row.number for row in with_events}
        others = platform_pulls.choose_for_full_sync(followed, due.claimed_at)
        return [*with_events, *(row for row in others if row.number not in first)]

    async def _read(self, run: _Run, row: PullRow) -> None:
        reading = PullReading(row, row.not_found_count)
        try:
            reading.is_handled = await self._sync_pull(run, reading)
            run.is_incomplete |= not reading.is_handled
        except PlatformError as error:
            is_unavailable = error.fault == "away" and run.unavailable
            if error.fault == "unauthorized" or is_unavailable or isinstance(error, PollsPaused):
                raise
            if error.fault == "away":
                # Only this pull request may be affected: the next one shows it.
                run.unavailable.append(error)
            run.notes.append(str(error))
        finally:
            await self.context.db.transact(platform_pulls.record_reading, run.repo.id, reading)

    async def _sync_pull(self, run: _Run, reading: PullReading) -> bool:
        """False if a comment has to be handled again."""
        row = reading.row
        remote = await self._fetch(run, row)
        if remote is not None:
            reading.not_found_count = 0
        else:
            # If the platform did not return the repository, the whole repository may be missing.
            reading.not_found_count += run.is_repo_present
            if reading.not_found_count < MAX_MISSING:
                return True
            remote = msgspec.structs.replace(_to_remote(row), state="closed")
        if remote != _to_remote(row):
            await self.context.db.transact(self._update, run.repo, row, remote)
        return remote.state != "open" or await self._handle_comments(run, row)

    async def _fetch(self, run: _Run, row: PullRow) -> RemotePull | None:
        """None if the platform does not have it."""
        try:
            remote = await run.platform.pull(run.repo.address, row.number)
        except PlatformError as error:
            if error.fault != "gone":
                raise
            return None
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
        for comment in comments:
            key = (run.repo.id, row.number, comment.kind, comment.id)
            if not await self._handle(run, key, comment):
                return False
            await self._advance(key)
        return True

    async def _advance(self, key: _CommentKey) -> None:
        await self.context.db.transact(platform_pulls.advance_cursor, *key)

    async def _handle(self, run: _Run, key: _CommentKey, comment: Comment) -> bool:
        """False if it should be tried again."""
        try:
            note = await handle_comment(self.context, run.platform, run.repo, key[1], comment)
        except CommentDeferred:
            return False
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one comment must not block the others
            is_unavailable = isinstance(error, PlatformError) and error.fault in {
                "away",
                "unauthorized",
            }
            if self._may_retry(key, error, _UNAVAILABLE_ATTEMPT if is_unavailable else 1):
                run.notes.append(f"A comment on #{key[1]} was not handled: {_reason(error)}")
                return False
        else:
            run.notes += [note] if note else []
        self.attempts.pop(key, None)
        return True

    def _may_retry(self, key: _CommentKey, error: Exception, weight: float) -> bool:
        if len(self.attempts) >= _MAX_REMEMBERED:
            self.attempts.clear()
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

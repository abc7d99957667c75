"""Indexes repositories that are due. `index_due_at` serves as queue, lease and backoff.

`rows` stores the result; `index` produces it.
"""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from agentjobs.clock import SECOND_MS
from agentjobs.git.refs import resolve
from agentjobs.inventory.index.analysis import fingerprint
from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.process import IndexFailure, SpareChild, run_child
from agentjobs.inventory.index.wire import Request
from agentjobs.inventory.model import Dependency, IndexWarning
from agentjobs.inventory.rows import prepare, store_in_batches, store_result, store_unchanged
from agentjobs.settings.model import Settings
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import backoff_ms, run_renewing

__all__ = [
    "IndexFailure",
    "SpareChild",
    "claim_due",
    "forget_repository",
    "index_repository",
    "make_outdated_due",
    "read_dependencies",
    "store_failure",
]

_LEASE_MS = 15 * SECOND_MS
_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MAX_BACKOFF_MS = 3_600 * SECOND_MS
_PROGRESS_SECONDS = 0.5


class DueRepo(msgspec.Struct, frozen=True):
    """A claimed repository, and the commit and analyzers of its last index."""

    id: str
    default_branch: str
    head_commit: str
    failures: int
    indexed_commit: str | None = None
    fingerprint: str | None = None
    dependencies_digest: str | None = None


class IndexedCommit(msgspec.Struct, frozen=True):
    """`file_count` is None if the stored index was already that of the commit."""

    commit: str
    file_count: int | None


class CommitDependencies(msgspec.Struct, frozen=True):
    dependencies: tuple[Dependency, ...]
    warnings: tuple[IndexWarning, ...]


async def claim_due(db: Database) -> DueRepo | None:
    """Claim the repository that has been due longest; it is due again when the lease expires."""
    return await db.transact(_claim_due)


async def make_outdated_due(db: Database) -> None:
    """Make repositories due that were indexed by other versions of the analyzers."""
    await db.transact(_make_outdated_due)


async def index_repository(
    db: Database,
    repo: DueRepo,
    git_dir: Path,
    settings: Settings,
    spare: SpareChild | None = None,
) -> IndexedCommit:
    """Raises IndexFailure, whose message is shown to the repository's owner."""
    commit = await resolve(git_dir, f"refs/heads/{repo.default_branch}")
    if commit is None:
        raise IndexFailure(f"The branch {repo.default_branch!r} no longer exists.")
    if (repo.indexed_commit, repo.fingerprint) == (commit, fingerprint()):
        await db.transact(store_unchanged, repo.id, repo.head_commit, commit)
        return IndexedCommit(commit, None)
    request = _request("index", git_dir, commit, settings, repo)
    running = run_child(request, settings.index_timeout_seconds, progress := _Progress(), spare)
    result = await run_renewing(
        running, lambda: _renew_with_progress(db, repo.id, progress), _PROGRESS_SECONDS
    )
    # Building thousands of rows would block the event loop.
    rows = await asyncio.to_thread(prepare, repo.id, result)
    rows = await store_in_batches(db, repo.id, rows)
    await db.transact(store_result, repo.id, repo.head_commit, commit, rows)
    return IndexedCommit(commit, result.file_count)


async def read_dependencies(git_dir: Path, commit: str, settings: Settings) -> CommitDependencies:
    """The dependencies of any commit, read from its manifests only; stores nothing."""
    request = _request("dependencies", git_dir, commit, settings)
    result = await run_child(request, settings.index_timeout_seconds, lambda *_: None)
    return CommitDependencies(result.dependencies or (), result.warnings)


async def store_failure(db: Database, repo: DueRepo, reason: str) -> None:
    backoff = backoff_ms(repo.failures, _FIRST_BACKOFF_MS, _MAX_BACKOFF_MS)
    await db.transact(_store_failure, repo.id, reason, backoff)


def forget_repository(settings: Settings, repo_id: str) -> None:
    """Blocking. Deletes what this host's cache holds of a repository."""
    path = _cache_path(settings)
    if path.exists():
        with closing(AnalysisCache(path)) as cache:
            cache.delete_state(repo_id)


def _cache_path(settings: Settings) -> Path:
    return settings.data_path / "index" / "facts.db"


def _request(
    task: Literal["index", "dependencies"],
    git_dir: Path,
    commit: str,
    settings: Settings,
    repo: DueRepo | None = None,
) -> Request:
    request = Request(
        task=task,
        git_dir=str(git_dir.absolute()),
        commit=commit,
        cache_path=str(_cache_path(settings).absolute()),
        memory_mib=settings.index_memory_mib,
        repo_id="" if repo is None else repo.id,
    )
    # Results of other analyzer versions cannot be reused.
    if repo is None or repo.fingerprint != fingerprint():
        return request
    return msgspec.structs.replace(
        request,
        indexed_commit=repo.indexed_commit or "",
        stored_digest=repo.dependencies_digest or "",
    )


class _Progress:
    done = 0
    total = 0

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total


async def _renew_with_progress(db: Database, repo_id: str, progress: _Progress) -> bool:
    """Storing the progress also renews the lease."""
    await db.transact(_store_progress, repo_id, progress.done, progress.total)
    return True


async def _claim_due(tx: Transaction) -> DueRepo | None:
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT id, default_branch, head_commit, index_failures, indexed_commit,"
        " index_fingerprint, dependencies_digest FROM repos"
        " WHERE index_due_at IS NOT NULL AND index_due_at <= :now"
        " AND disconnected_at IS NULL"
        " ORDER BY index_due_at LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE repos SET index_due_at = :until, index_done = 0, index_total = NULL WHERE id = :id",
        id=row["id"],
        until=now + _LEASE_MS,
    )
    return DueRepo(
        row["id"],
        row["default_branch"],
        row["head_commit"],
        row["index_failures"],
        row["indexed_commit"],
        row["index_fingerprint"],
        row["dependencies_digest"],
    )


async def _make_outdated_due(tx: Transaction) -> None:
    await tx.execute(
        "UPDATE repos SET index_due_at = :now WHERE index_due_at IS NULL"
        " AND disconnected_at IS NULL AND indexed_commit IS NOT NULL"
        " AND (index_fingerprint IS NULL OR index_fingerprint <> :fingerprint)",
        now=await tx.clock_ms(),
        fingerprint=fingerprint(),
    )


async def _store_progress(tx: Transaction, repo_id: str, done: int, total: int) -> None:
    await tx.execute(
        "UPDATE repos SET index_done = :done, index_total = :total, index_due_at = :until"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        done=done,
        total=total,
        until=await tx.clock_ms() + _LEASE_MS,
    )


async def _store_failure(tx: Transaction, repo_id: str, reason: str, backoff: int) -> None:
    await tx.execute(
        "UPDATE repos SET index_error = :reason, index_failures = index_failures + 1,"
        " index_due_at = :due_at WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        reason=reason,
        due_at=await tx.clock_ms() + backoff,
    )

"""Indexes repositories that are due in `index_queue`.

`rows` stores the result; `index` produces it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, Literal

import msgspec

from agentjobs.inventory.index.process import IndexFailure, run_child
from agentjobs.inventory.index.wire import Request, Result
from agentjobs.inventory.published_poms import PomFetcher, PomRegistry
from agentjobs.inventory.rows import (
    IndexRows,
    prepare,
    store_in_batches,
    store_result,
    store_unchanged,
)
from agentjobs.repos.queues import INDEX, request_indexes, retry_index
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.in_transaction import in_transaction
from agentjobs.store.leases import Lease, backoff_ms, run_renewing
from agentjobs_dependencies.index.analysis import fingerprint
from agentjobs_dependencies.model import Dependency, IndexWarning
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.git.refs import resolve
from agentjobs_runtime.git.remote import strip_credentials
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings.model import Settings

__all__ = [
    "IndexFailure",
    "claim_due",
    "index_repository",
    "make_outdated_due",
    "pom_fetcher",
    "read_dependencies",
    "store_failure",
]

_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MAX_BACKOFF_MS = 3_600 * SECOND_MS
_PROGRESS_SECONDS = 0.5
# Properties of the repository may change which poms a fetched one names.
_MAX_POM_ROUNDS = 4


class DueRepo(msgspec.Struct, frozen=True):
    """A claimed repository, and the commit and analyzers of its last index."""

    id: str
    default_branch: str
    head_commit: str
    failures: int
    lease_until: int
    indexed_commit: str | None = None
    fingerprint: str | None = None
    dependencies_digest: str | None = None
    organization_id: str = ""


class IndexedCommit(msgspec.Struct, frozen=True):
    """`file_count` is None if the stored index was already that of the commit."""

    commit: str
    file_count: int | None


class CommitDependencies(msgspec.Struct, frozen=True):
    """`installed_together` are groups of files that are installed or resolved together."""

    dependencies: tuple[Dependency, ...]
    warnings: tuple[IndexWarning, ...]
    installed_together: tuple[tuple[str, ...], ...] = ()


@in_transaction
async def claim_due(tx: Transaction, left_out: Collection[str] = ()) -> DueRepo | None:
    """Claim the repository that has been due longest; it is due again when the lease expires.

    Those of the organizations `left_out` are not claimed.
    """
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT r.id, r.default_branch, r.head_commit, q.failures, i.indexed_commit,"
        " i.fingerprint, i.dependencies_digest, r.organization_id"
        " FROM index_queue q JOIN repos r ON r.id = q.repo_id"
        " LEFT JOIN repo_index i ON i.repo_id = q.repo_id"
        " WHERE q.due_at IS NOT NULL AND q.due_at <= :now"
        " AND (q.lease_until IS NULL OR q.lease_until <= :now)"
        " AND r.disconnected_at IS NULL"
        " AND r.organization_id NOT IN (SELECT value FROM each(:left_out))"
        " ORDER BY q.due_at LIMIT 1 /*postgresql FOR UPDATE OF q SKIP LOCKED */",
        now=now,
        left_out=list(left_out),
    )
    if row is None:
        return None
    until = await INDEX.claim(tx, row["id"])
    await tx.execute(
        "INSERT INTO repo_index (repo_id) VALUES (:id)"
        " ON CONFLICT (repo_id) DO UPDATE SET done = 0, total = NULL",
        id=row["id"],
    )
    return to_struct(row, DueRepo, lease_until=until)


@in_transaction
async def make_outdated_due(tx: Transaction) -> None:
    """Make repositories due that were indexed by other versions of the analyzers."""
    await request_indexes(
        tx,
        "EXISTS (SELECT 1 FROM repo_index o WHERE o.repo_id = r.id"
        " AND (o.fingerprint IS NULL OR o.fingerprint <> :fingerprint))",
        fingerprint=fingerprint(),
    )


async def index_repository(
    db: Database,
    repo: DueRepo,
    git_dir: Path,
    settings: Settings,
    poms: PomFetcher | None = None,
) -> IndexedCommit:
    """Raises IndexFailure, whose message is shown to the repository's owner, or ClaimLost."""
    commit = await resolve(git_dir, f"refs/heads/{repo.default_branch}")
    if commit is None:
        raise IndexFailure(f"The branch {repo.default_branch!r} no longer exists.")
    lease = _IndexLease(db, INDEX, repo.id, repo.lease_until)
    if (repo.indexed_commit, repo.fingerprint) == (commit, fingerprint()):
        await db.transact(_store_unchanged, lease, repo, commit)
        return IndexedCommit(commit, None)
    # Other versions may store the same dependencies in another way.
    is_same_version = repo.fingerprint == fingerprint()
    stored_digest = (repo.dependencies_digest or "") if is_same_version else ""
    request = _request("index", git_dir, commit, settings, stored_digest)
    running = _run(request, settings, lease.report, poms)
    result, rows = await run_renewing(
        _build(db, repo, running), lease.renew, _PROGRESS_SECONDS, INDEX.lease_ms
    )
    await db.transact(_store_result, lease, repo, commit, rows)
    return IndexedCommit(commit, result.file_count)


async def _build(
    db: Database, repo: DueRepo, running: Coroutine[Any, Any, Result]
) -> tuple[Result, IndexRows]:
    result = await running
    # Building thousands of rows would block the event loop.
    rows = await asyncio.to_thread(prepare, repo.id, result)
    return result, await store_in_batches(db, repo.id, rows)


async def read_dependencies(
    git_dir: Path, commit: str, settings: Settings, poms: PomFetcher | None = None
) -> CommitDependencies:
    """The dependencies of any commit, read from its manifests only; stores nothing."""
    request = _request("dependencies", git_dir, commit, settings)
    result = await _run(request, settings, lambda *_: None, poms)
    return CommitDependencies(result.dependencies or (), result.warnings, result.installed_together)


def pom_fetcher(settings: Settings, registry: PomRegistry) -> PomFetcher:
    """Also removes the cache of versions before 0.3, which may have a gigabyte."""
    for path in _poms_path(settings).parent.glob("facts.db*"):
        with contextlib.suppress(OSError):
            path.unlink()
    return PomFetcher(registry, _maven_registry(settings), _poms_path(settings))


async def _run(
    request: Request,
    settings: Settings,
    progress: Callable[[int, int], None],
    poms: PomFetcher | None,
) -> Result:
    """Runs the process again as long as poms that it lacks can be fetched."""
    timeout_seconds = settings.index_timeout_seconds
    result = await run_child(request, timeout_seconds, progress)
    for _ in range(_MAX_POM_ROUNDS):
        missing = result.missing_poms
        if not missing or poms is None or not await poms.fetch_missing(missing):
            break
        result = await run_child(request, timeout_seconds, progress)
    return result


async def store_failure(db: Database, repo: DueRepo, reason: str) -> None:
    backoff = backoff_ms(repo.failures, _FIRST_BACKOFF_MS, _MAX_BACKOFF_MS)
    await db.transact(_store_failure, repo.id, reason, backoff)


def _maven_registry(settings: Settings) -> str:
    return strip_credentials(settings.registry_url("Maven"))


def _poms_path(settings: Settings) -> Path:
    return settings.data_path / "index" / "poms.db"


def _request(
    task: Literal["index", "dependencies"],
    git_dir: Path,
    commit: str,
    settings: Settings,
    stored_digest: str = "",
) -> Request:
    return Request(
        task=task,
        git_dir=str(git_dir.absolute()),
        commit=commit,
        poms_path=str(_poms_path(settings).absolute()),
        memory_mib=settings.index_memory_mib,
        stored_digest=stored_digest,
        maven_registry=_maven_registry(settings),
    )


class _IndexLease(Lease):
    """Renewing it stores the progress too."""

    _done = 0
    _total = 0

    def report(self, done: int, total: int) -> None:
        self._done, self._total = done, total

    async def end(self, tx: Transaction) -> None:
        """Raises ClaimLost if another process indexes the repository by now."""
        if not await self.move(tx, None):
            raise ClaimLost

    async def move(self, tx: Transaction, due_at: int | None) -> bool:
        is_held = await super().move(tx, due_at)
        if is_held and due_at is not None:
            await tx.execute(
                "UPDATE repo_index SET done = :done, total = :total WHERE repo_id = :id",
                id=self.row_id,
                done=self._done,
                total=self._total,
            )
        return is_held


async def _store_unchanged(tx: Transaction, lease: _IndexLease, repo: DueRepo, commit: str) -> None:
    await lease.end(tx)
    await store_unchanged(tx, repo.id, repo.head_commit, commit)


async def _store_result(
    tx: Transaction, lease: _IndexLease, repo: DueRepo, commit: str, rows: IndexRows
) -> None:
    await lease.end(tx)
    await store_result(tx, repo.id, repo.head_commit, commit, rows)


async def _store_failure(tx: Transaction, repo_id: str, reason: str, backoff: int) -> None:
    await tx.execute(
        "UPDATE repo_index SET error = :reason WHERE repo_id = :id", id=repo_id, reason=reason
    )
    await retry_index(tx, repo_id, backoff)

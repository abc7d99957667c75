"""Rows of `environment_builds`: which snapshots exist where, and the logs of their builds.

A build at a location holds a lease; one whose lease has expired died with its worker.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from agentjobs.clock import now_ms
from agentjobs.environments.key import CacheFile, EnvironmentRequest, count_matching
from agentjobs.identifiers import new_id
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.database_clock import DATABASE_NOW

LEASE_MS = 30_000
MAX_LOG_CHARACTERS = 256 * 1024
# Of one repository, so that the table stays small.
KEPT_ROWS = 50

State = Literal["queued", "building", "ready", "failed", "removed"]
Reason = Literal["job", "push", "image", "request"]
TOPIC = "environments"


def log_topic(build_id: str) -> str:
    return f"log:{build_id}"


class Build(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    organization_id: str
    repo_id: str
    state: State
    reason: Reason
    location: str | None
    branch: str
    commit: str
    request_key: str
    key: str
    files: tuple[CacheFile, ...]
    image: str
    image_digest: str
    size_bytes: int
    setup_ms: int
    hits: int
    error: str
    created_at: int
    finished_at: int | None
    used_at: int | None


class NewBuild(msgspec.Struct, frozen=True, kw_only=True):
    """`location` None: any worker may build it."""

    organization_id: str
    repo_id: str
    reason: Reason
    branch: str
    commit: str = ""
    location: str | None = None
    request: EnvironmentRequest | None = None


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is empty if the build is ready."""

    key: str = ""
    image_digest: str = ""
    size_bytes: int = 0
    setup_ms: int = 0
    error: str = ""
    log: str = ""


_COLUMNS = (
    "id, organization_id, repo_id, state, reason, location, branch, commit_id, request_key, key,"
    " cache_files, image, image_digest, size_bytes, setup_ms, hits, error, created_at,"
    " finished_at, used_at"
)


async def begin_build(db: Database, new: NewBuild) -> str:
    """The ID of a build that this process runs from now on."""
    return await db.transact(_insert, new, "building")


async def request_build(tx: Transaction, new: NewBuild) -> str:
    """The ID of a build for a worker to claim: the one that already waits, or a new one."""
    waiting = await tx.fetch_one(
        "SELECT id FROM environment_builds WHERE repo_id = :repo_id AND state = 'queued'"
        " AND reason = :reason AND branch = :branch AND COALESCE(location, '') = :location"
        " ORDER BY id LIMIT 1",
        repo_id=new.repo_id,
        reason=new.reason,
        branch=new.branch,
        location=new.location or "",
    )
    build_id: str = await _insert(tx, new, "queued") if waiting is None else waiting["id"]
    tx.announce(TOPIC)
    return build_id


async def claim_requested(db: Database, location: str, credential_hash: bytes) -> Build | None:
    """The oldest build that this location may run, with a lease."""
    return await db.transact(_claim, location, credential_hash)


async def describe_build(
    db: Database, build_id: str, commit: str, request: EnvironmentRequest
) -> None:
    """What a requested build builds, once the repository has been fetched."""
    await db.transact(_describe, build_id, commit, request)


async def renew_build(db: Database, build_id: str, log: str | None) -> bool:
    """`log` is None if it has not changed. False if the build was taken from this process."""
    return await db.transact(_renew, build_id, log)


async def finish_build(db: Database, build_id: str, finished: Finished) -> None:
    await db.transact(_finish, build_id, finished)


async def abandon_build(db: Database, build_id: str) -> None:
    """This process stops, or there was nothing to build."""
    await db.transact(_abandon, build_id)


async def find_ready(
    db: Database, repo_id: str, request_key: str, location: str | None = None
) -> list[Build]:
    """Newest first; of a location, or of all."""
    rows = await db.fetch_all(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state = 'ready'"
        " AND (CAST(:location AS TEXT) IS NULL OR location = :location)"
        " ORDER BY finished_at DESC, id DESC LIMIT 20",
        repo_id=repo_id,
        request_key=request_key,
        location=location,
    )
    return [_build(row) for row in rows]


async def find_best(
    db: Database, repo_id: str, request: EnvironmentRequest, location: str
) -> Build | None:
    """For a commit that may not run its own setup: the snapshot with the most equal files."""
    rows = await db.fetch_all(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND state = 'ready' AND location = :location AND generation = :generation"
        " AND image = :image ORDER BY finished_at, id",
        repo_id=repo_id,
        location=location,
        generation=request.generation,
        image=request.definition.image,
    )
    builds = [_build(row) for row in rows]
    # The newest of those that match equally well.
    return max(
        reversed(builds), key=lambda build: count_matching(request.files, build.files), default=None
    )


async def find_failure(db: Database, repo_id: str, request_key: str, since: int) -> Build | None:
    """The last build of this environment, if it failed after that time."""
    row = await db.fetch_one(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state IN ('ready', 'failed')"
        " AND finished_at >= :since ORDER BY finished_at DESC, id DESC LIMIT 1",
        repo_id=repo_id,
        request_key=request_key,
        since=since,
    )
    return _build(row) if row is not None and row["state"] == "failed" else None


async def list_builds(db: Database, repo_id: str, limit: int = KEPT_ROWS) -> list[Build]:
    """Newest first."""
    rows = await db.fetch_all(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " ORDER BY id DESC LIMIT :limit",
        repo_id=repo_id,
        limit=limit,
    )
    return [_build(row) for row in rows]


async def find_build(db: Database, repo_id: str, build_id: str) -> Build | None:
    row = await db.fetch_one(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id AND id = :id",
        repo_id=repo_id,
        id=build_id,
    )
    return None if row is None else _build(row)


async def find_any_build(db: Database, build_id: str) -> Build | None:
    """Of any organization, for operators."""
    row = await db.fetch_one(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE id = :id", id=build_id
    )
    return None if row is None else _build(row)


async def read_log(db: Database, build_id: str) -> str:
    row = await db.fetch_one("SELECT log FROM environment_builds WHERE id = :id", id=build_id)
    return "" if row is None else str(row["log"])


async def record_use(db: Database, build_id: str) -> None:
    await db.transact(_record_use, build_id)


async def mark_removed(db: Database, build_ids: Sequence[str]) -> None:
    """Their snapshots no longer exist."""
    await db.transact(_mark_removed, list(build_ids))


async def fail_abandoned(db: Database) -> None:
    """End builds whose worker died. Their jobs do not fail: another worker builds again."""
    await db.transact(_fail_abandoned)


async def states_at(db: Database, location: str) -> dict[str, State]:
    """Of all builds by their IDs that have a snapshot there, or may get one."""
    rows = await db.fetch_all(
        "SELECT id, state FROM environment_builds WHERE location = :location"
        " AND state IN ('building', 'ready')",
        location=location,
    )
    return {row["id"]: row["state"] for row in rows}


async def _insert(tx: Transaction, new: NewBuild, state: State) -> str:
    now = await tx.clock_ms()
    build_id = new_id("env")
    request = new.request
    await tx.execute(
        "INSERT INTO environment_builds (id, organization_id, repo_id, state, reason, location,"
        " lease_until, branch, commit_id, request_key, key, generation, cache_files, image,"
        " image_digest, size_bytes, setup_ms, hits, error, log, created_at)"
        " VALUES (:id, :organization_id, :repo_id, :state, :reason, :location, :lease_until,"
        " :branch, :commit_id, :request_key, '', :generation, :cache_files, :image, '', 0, 0, 0,"
        " '', '', :now)",
        id=build_id,
        organization_id=new.organization_id,
        repo_id=new.repo_id,
        state=state,
        reason=new.reason,
        location=new.location,
        lease_until=now + LEASE_MS if state == "building" else None,
        branch=new.branch,
        commit_id=new.commit,
        **_request_values(request),
        now=now,
    )
    await _delete_oldest(tx, new.repo_id)
    return build_id


def _request_values(request: EnvironmentRequest | None) -> dict[str, str | int]:
    if request is None:
        return {"request_key": "", "generation": 0, "cache_files": "[]", "image": ""}
    return {
        "request_key": request.request_key,
        "generation": request.generation,
        "cache_files": msgspec.json.encode(request.files).decode(),
        "image": request.definition.image,
    }


async def _delete_oldest(tx: Transaction, repo_id: str) -> None:
    await tx.execute(
        "DELETE FROM environment_builds WHERE repo_id = :repo_id"
        " AND state IN ('failed', 'removed') AND id NOT IN (SELECT id FROM environment_builds"
        "  WHERE repo_id = :repo_id ORDER BY id DESC LIMIT :kept)",
        repo_id=repo_id,
        kept=KEPT_ROWS,
    )


async def _claim(tx: Transaction, location: str, credential_hash: bytes) -> Build | None:
    row = await tx.fetch_one(
        f"SELECT {_COLUMNS} FROM environment_builds WHERE state = 'queued'"
        " AND (location IS NULL OR location = :location)"
        " ORDER BY id LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        location=location,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE environment_builds SET state = 'building', location = :location,"
        " lease_until = :lease_until, credential_hash = :credential_hash WHERE id = :id",
        id=row["id"],
        location=location,
        lease_until=await tx.clock_ms() + LEASE_MS,
        credential_hash=credential_hash,
    )
    tx.announce(log_topic(row["id"]))
    return msgspec.structs.replace(_build(row), state="building", location=location)


async def _describe(
    tx: Transaction, build_id: str, commit: str, request: EnvironmentRequest
) -> None:
    await tx.execute(
        "UPDATE environment_builds SET commit_id = :commit_id, request_key = :request_key,"
        " generation = :generation, cache_files = :cache_files, image = :image WHERE id = :id",
        id=build_id,
        commit_id=commit,
        **_request_values(request),
    )


async def _renew(tx: Transaction, build_id: str, log: str | None) -> bool:
    changed = await tx.execute(
        "UPDATE environment_builds SET lease_until = :lease_until,"
        " log = COALESCE(CAST(:log AS TEXT), log) WHERE id = :id AND state = 'building'",
        id=build_id,
        lease_until=await tx.clock_ms() + LEASE_MS,
        log=None if log is None else log[-MAX_LOG_CHARACTERS:],
    )
    if log is not None:
        tx.announce(log_topic(build_id))
    return changed > 0


async def _finish(tx: Transaction, build_id: str, finished: Finished) -> None:
    await tx.execute(
        "UPDATE environment_builds SET state = :state, key = :key, image_digest = :image_digest,"
        " size_bytes = :size_bytes, setup_ms = :setup_ms, error = :error, log = :log,"
        " finished_at = :now, lease_until = NULL, credential_hash = NULL"
        " WHERE id = :id AND state = 'building'",
        id=build_id,
        state="failed" if finished.error else "ready",
        key=finished.key,
        image_digest=finished.image_digest,
        size_bytes=finished.size_bytes,
        setup_ms=finished.setup_ms,
        error=finished.error,
        log=finished.log[-MAX_LOG_CHARACTERS:],
        now=await tx.clock_ms(),
    )
    tx.announce(TOPIC, log_topic(build_id))


async def _abandon(tx: Transaction, build_id: str) -> None:
    await tx.execute(
        "DELETE FROM environment_builds WHERE id = :id AND state = 'building'", id=build_id
    )
    tx.announce(log_topic(build_id))


async def _record_use(tx: Transaction, build_id: str) -> None:
    await tx.execute(
        "UPDATE environment_builds SET hits = hits + 1, used_at = :now WHERE id = :id",
        id=build_id,
        now=await tx.clock_ms(),
    )


async def _mark_removed(tx: Transaction, build_ids: list[str]) -> None:
    await tx.execute(
        "UPDATE environment_builds SET state = 'removed'"
        " WHERE id IN (SELECT value FROM each(:ids)) AND state = 'ready'",
        ids=build_ids,
    )


async def _fail_abandoned(tx: Transaction) -> None:
    await tx.execute(
        "UPDATE environment_builds SET state = 'removed', finished_at = :now, lease_until = NULL,"
        " credential_hash = NULL, error = 'The worker stopped while it built the environment.'"
        f" WHERE state = 'building' AND lease_until < {DATABASE_NOW}",
        now=now_ms(),
    )


def _build(row: Row) -> Build:
    return Build(
        id=row["id"],
        organization_id=row["organization_id"],
        repo_id=row["repo_id"],
        state=row["state"],
        reason=row["reason"],
        location=row["location"],
        branch=row["branch"],
        commit=row["commit_id"],
        request_key=row["request_key"],
        key=row["key"],
        files=msgspec.json.decode(row["cache_files"], type=tuple[CacheFile, ...]),
        image=row["image"],
        image_digest=row["image_digest"],
        size_bytes=row["size_bytes"],
        setup_ms=row["setup_ms"],
        hits=row["hits"],
        error=row["error"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        used_at=row["used_at"],
    )

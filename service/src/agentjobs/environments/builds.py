"""Writes `environment_builds`: builds from their request to the removal of their snapshots.

A build at a location holds a lease; one whose lease has expired died with its worker.
"""

from collections.abc import Collection, Sequence

import msgspec

from agentjobs.environments.build_queries import (
    BUILD_COLUMNS,
    KEPT_ROWS,
    build_from_row,
)
from agentjobs.environments.repo_settings import retire
from agentjobs.organizations import audit
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import (
    MAX_LOG_CHARACTERS,
    Build,
    Finished,
    NewBuild,
    State,
)
from agentjobs_runtime.identifiers import new_id

LEASE_MS = 30_000

TOPIC = "environments"


def log_topic(build_id: str) -> str:
    return f"log:{build_id}"


@in_transaction
async def begin_build(tx: Transaction, new: NewBuild) -> str:
    """The ID of a build that this process runs from now on."""
    return await _insert(tx, new, "building")


@audit.in_transaction
async def request_environment_build(
    tx: Transaction, organization_id: str, repo: RepoView, *, is_rebuild: bool = False
) -> str:
    """The ID of the build, which a worker claims. A rebuild retires all snapshots before."""
    if is_rebuild:
        await retire(tx, repo.id)
    new = NewBuild(
        organization_id=organization_id,
        repo_id=repo.id,
        reason="request",
        branch=repo.default_branch,
    )
    build_id = await request_build(tx, new)
    action = "repo.environment_rebuilt" if is_rebuild else "repo.environment_built"
    await audit.record(tx, organization_id, action, repo.full_name)
    return build_id


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


@in_transaction
async def claim_requested(
    tx: Transaction, location: str, credential_hash: bytes, left_out: Collection[str] = ()
) -> Build | None:
    """The oldest build that this location may run, with a lease; of no organization `left_out`."""
    row = await tx.fetch_one(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE state = 'queued'"
        " AND (location IS NULL OR location = :location)"
        " AND organization_id NOT IN (SELECT value FROM each(:left_out))"
        " ORDER BY id LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        location=location,
        left_out=list(left_out),
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
    return msgspec.structs.replace(build_from_row(row), state="building", location=location)


@in_transaction
async def describe_build(
    tx: Transaction, build_id: str, commit: str, request: EnvironmentRequest
) -> None:
    """What a requested build builds, once the repository has been fetched."""
    await tx.execute(
        "UPDATE environment_builds SET commit_id = :commit_id, request_key = :request_key,"
        " generation = :generation, cache_files = :cache_files, image = :image WHERE id = :id",
        id=build_id,
        commit_id=commit,
        **_request_values(request),
    )


@in_transaction
async def renew_build(tx: Transaction, build_id: str, log: str | None) -> bool:
    """`log` is None if it has not changed. False if the build was taken from this process."""
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


@in_transaction
async def finish_build(tx: Transaction, build_id: str, finished: Finished) -> None:
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


@in_transaction
async def abandon_build(tx: Transaction, build_id: str) -> None:
    """Ends a build because this process stops, or there was nothing to build."""
    await tx.execute(
        "DELETE FROM environment_builds WHERE id = :id AND state = 'building'", id=build_id
    )
    tx.announce(log_topic(build_id))


@in_transaction
async def record_use(tx: Transaction, build_id: str) -> None:
    await tx.execute(
        "UPDATE environment_builds SET hits = hits + 1, used_at = :now WHERE id = :id",
        id=build_id,
        now=await tx.clock_ms(),
    )


@in_transaction
async def mark_removed(tx: Transaction, build_ids: Sequence[str]) -> None:
    """Marks builds whose snapshots no longer exist as removed."""
    await tx.execute(
        "UPDATE environment_builds SET state = 'removed'"
        " WHERE id IN (SELECT value FROM each(:ids)) AND state = 'ready'",
        ids=list(build_ids),
    )


@in_transaction
async def fail_abandoned(tx: Transaction) -> None:
    """End builds whose worker died. Their jobs do not fail: another worker builds again."""
    await tx.execute(
        "UPDATE environment_builds SET state = 'removed', finished_at = :now, lease_until = NULL,"
        " credential_hash = NULL, error = 'The worker stopped while it built the environment.'"
        f" WHERE state = 'building' AND lease_until < {DATABASE_NOW}",
        now=now_ms(),
    )

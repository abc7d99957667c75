"""Reads of `environment_builds`: which snapshots exist where, and how their builds ended."""

import msgspec

from agentjobs.store.database import Database, Row, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.key import CacheFile, EnvironmentRequest, count_matching
from agentjobs_runtime.environments.records import Build, State

# Limit for one repository, so that the table stays small.
KEPT_ROWS = 50

BUILD_COLUMNS = (
    "id, organization_id, repo_id, state, reason, location, branch, commit_id, request_key, key,"
    " cache_files, image, image_digest, size_bytes, setup_ms, hits, error, created_at,"
    " finished_at, used_at"
)
_CHANGED_REPOS = """
SELECT r.id, r.organization_id, r.default_branch, r.head_commit FROM repos r
WHERE r.disconnected_at IS NULL AND r.head_commit <> '' AND r.id IN (
  SELECT b.repo_id FROM environment_builds b WHERE b.location = :location AND b.state = 'ready'
  AND COALESCE(b.used_at, b.finished_at) > :since)
AND NOT EXISTS (
  SELECT 1 FROM environment_builds b WHERE b.repo_id = r.id AND b.location = :location
  AND b.state IN ('queued', 'building', 'ready') AND b.commit_id IN ('', r.head_commit))
"""


async def find_ready(
    db: Database, repo_id: str, request_key: str, location: str | None = None
) -> list[Build]:
    """Newest first; of a location, or of all."""
    rows = await db.fetch_all(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state = 'ready'"
        " AND (CAST(:location AS TEXT) IS NULL OR location = :location)"
        " ORDER BY finished_at DESC, id DESC LIMIT 20",
        repo_id=repo_id,
        request_key=request_key,
        location=location,
    )
    return [build_from_row(row) for row in rows]


async def is_building_elsewhere(
    db: Database, repo_id: str, request_key: str, location: str
) -> bool:
    row = await db.fetch_one(
        "SELECT 1 FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state = 'building'"
        f" AND location <> :location AND lease_until > {DATABASE_NOW}",
        repo_id=repo_id,
        request_key=request_key,
        location=location,
        now=now_ms(),
    )
    return row is not None


async def find_best(
    db: Database, repo_id: str, request: EnvironmentRequest, location: str
) -> Build | None:
    """For a commit that may not run its own setup: the snapshot with the most equal files."""
    rows = await db.fetch_all(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND state = 'ready' AND location = :location AND generation = :generation"
        " AND image = :image ORDER BY finished_at, id",
        repo_id=repo_id,
        location=location,
        generation=request.generation,
        image=request.definition.image,
    )
    builds = [build_from_row(row) for row in rows]
    # The newest of those that match equally well.
    return max(
        reversed(builds), key=lambda build: count_matching(request.files, build.files), default=None
    )


async def find_failure(db: Database, repo_id: str, request_key: str, since: int) -> Build | None:
    """The last build of this environment, if it failed after that time."""
    row = await db.fetch_one(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state IN ('ready', 'failed')"
        " AND finished_at >= :since ORDER BY finished_at DESC, id DESC LIMIT 1",
        repo_id=repo_id,
        request_key=request_key,
        since=since,
    )
    return build_from_row(row) if row is not None and row["state"] == "failed" else None


async def list_changed_repos(db: Database, location: str, since: int) -> list[Row]:
    """Repositories with a head that no build is of, whose environment was in use since then."""
    return await db.fetch_all(_CHANGED_REPOS, location=location, since=since)


async def list_builds(db: Database, repo_id: str, limit: int = KEPT_ROWS) -> list[Build]:
    """Newest first."""
    rows = await db.fetch_all(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE repo_id = :repo_id"
        " ORDER BY id DESC LIMIT :limit",
        repo_id=repo_id,
        limit=limit,
    )
    return [build_from_row(row) for row in rows]


async def find_build(db: Database, build_id: str, repo_id: str | None = None) -> Build | None:
    """A build of one repository, or of any organization."""
    row = await db.fetch_one(
        f"SELECT {BUILD_COLUMNS} FROM environment_builds WHERE id = :id"
        " AND repo_id = COALESCE(CAST(:repo_id AS TEXT), repo_id)",
        id=build_id,
        repo_id=repo_id,
    )
    return None if row is None else build_from_row(row)


async def read_log(db: Database, build_id: str) -> str:
    row = await db.fetch_one("SELECT log FROM environment_builds WHERE id = :id", id=build_id)
    return "" if row is None else str(row["log"])


async def states_at(db: Database, location: str) -> dict[str, State]:
    """By ID, the states of all builds that have a snapshot there or may get one."""
    rows = await db.fetch_all(
        "SELECT id, state FROM environment_builds WHERE location = :location"
        " AND state IN ('building', 'ready')",
        location=location,
    )
    return {row["id"]: row["state"] for row in rows}


def build_from_row(row: Row) -> Build:
    files = msgspec.json.decode(row["cache_files"], type=tuple[CacheFile, ...])
    return to_struct(row, Build, commit=row["commit_id"], files=files)

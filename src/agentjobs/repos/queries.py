"""Reading connected repositories, always through the organization that owns them."""

import msgspec

from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row


class IndexProgress(msgspec.Struct, frozen=True):
    done: int
    total: int | None


class RepoView(msgspec.Struct, frozen=True):
    id: str
    full_name: str
    platform: str
    index_status: str
    line_count: int
    default_branch: str
    indexed_commit: str | None
    index_progress: IndexProgress | None
    index_error: str | None
    lifted_paths: tuple[str, ...]
    # What its platform answered, when that was no good news.
    sync_error: str | None = None


async def list_repos(
    db: Database, organization_id: str, *, limit: int | None = None, after: str | None = None
) -> list[RepoView]:
    """All of them unless `limit` says otherwise; `after` is the identifier of the last one seen."""
    rows = await db.fetch_all(
        "SELECT * FROM repos WHERE organization_id = :organization_id"
        " AND disconnected_at IS NULL AND id > :after ORDER BY id"
        " LIMIT :limit",
        organization_id=organization_id,
        after=after or "",
        limit=2**62 if limit is None else limit,
    )
    return [repo_view(row) for row in rows]


async def find_repo(db: Database, organization_id: str, full_name: str) -> RepoView:
    row = await db.fetch_one(
        "SELECT * FROM repos WHERE organization_id = :organization_id"
        " AND full_name = :full_name AND disconnected_at IS NULL",
        organization_id=organization_id,
        full_name=full_name,
    )
    if row is None:
        raise Problem(
            "repo_not_connected",
            f"The repository {full_name!r} is not connected; "
            "`agentjobs repos list` shows those that are.",
        )
    return repo_view(row)


def repo_view(row: Row) -> RepoView:
    indexing = row["index_due_at"] is not None and row["index_error"] is None
    return RepoView(
        id=row["id"],
        full_name=row["full_name"],
        platform=row["platform"],
        index_status=row["index_status"],
        line_count=row["line_count"],
        default_branch=row["default_branch"],
        indexed_commit=row["indexed_commit"],
        index_progress=IndexProgress(row["index_done"], row["index_total"]) if indexing else None,
        index_error=row["index_error"],
        lifted_paths=msgspec.json.decode(row["lifted_paths"], type=tuple[str, ...]),
        sync_error=row["sync_error"],
    )

"""Queries for connected repositories, always scoped to their organization."""

from collections.abc import Collection
from typing import Annotated

import msgspec

from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_runtime.json_fields import Count, doc, known_values
from agentjobs_runtime.problems import Problem


class IndexProgress(msgspec.Struct, frozen=True):
    done: Annotated[Count, doc("Files read so far.")]
    total: Annotated[int | None, doc("All files, once they are counted.")]


class RepoView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Repository identifier.")]
    full_name: Annotated[str, doc("Form `<owner>/<name>`.")]
    platform: Annotated[
        str,
        known_values("Hosting platform of the repository.", ("local", "github", "gitlab", "gitea")),
    ]
    index_status: Annotated[
        str,
        known_values(
            "`indexing` until the first index is stored, then `ready`.", ("ready", "indexing")
        ),
    ]
    line_count: Annotated[Count, doc("Number of lines in the repository; 0 until it is known.")]
    default_branch: Annotated[str, doc("The branch that jobs start from by default.")]
    indexed_commit: Annotated[str | None, doc("The commit that was indexed.")]
    index_progress: Annotated[
        IndexProgress | None, doc("Progress of the index that is being built.")
    ]
    index_error: Annotated[str | None, doc("Why the last index failed; it is retried.")]
    lifted_paths: Annotated[
        tuple[str, ...], doc("Patterns of protected paths that agents may change here.")
    ]
    sync_error: Annotated[
        str | None, doc("Why the repository cannot be read from its platform; it is retried.")
    ] = None
    required_tags: Annotated[
        tuple[str, ...], doc("Only workers with all of these tags run jobs of the repository.")
    ] = ()
    max_concurrent_jobs: Annotated[
        int | None, doc("How many jobs of the repository may run at once; null without a limit.")
    ] = None


REPO_TABLES = (
    "repos r LEFT JOIN repo_index i ON i.repo_id = r.id"
    " LEFT JOIN index_queue q ON q.repo_id = r.id LEFT JOIN repo_sync s ON s.repo_id = r.id"
)
IS_INDEXED = "COALESCE(i.status, 'indexing') = 'ready'"
INDEX_ERROR = "COALESCE(i.error, CASE WHEN r.head_commit = '' THEN s.error END)"
"""A repository that was never fetched shows why."""
REPO_COLUMNS = (
    "r.id, r.full_name, r.platform, COALESCE(i.status, 'indexing') AS index_status,"
    " COALESCE(i.line_count, 0) AS line_count, r.default_branch, i.indexed_commit,"
    f" {INDEX_ERROR} AS index_error, q.due_at AS index_due_at, i.done AS index_done,"
    " i.total AS index_total, r.lifted_paths, s.error AS sync_error, r.required_tags,"
    " r.max_concurrent_jobs"
)
"""The columns of `repo_view`, from `REPO_TABLES`."""
_SELECT = f"SELECT {REPO_COLUMNS} FROM {REPO_TABLES}"


async def find_deleted_repos(db: Database, repo_ids: Collection[str]) -> set[str]:
    """Which of the repositories were disconnected or deleted."""
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE id IN (SELECT value FROM each(:ids))"
        " AND disconnected_at IS NULL",
        ids=list(repo_ids),
    )
    return set(repo_ids) - {row["id"] for row in rows}


async def list_repos(
    db: Database,
    organization_id: str,
    *,
    search: str = "",
    limit: int | None = None,
    after: str | None = None,
) -> list[RepoView]:
    """All repositories unless `limit` is given; `after` is the last id of the previous page.

    `search` is a part of their names, in any case.
    """
    rows = await db.fetch_all(
        f"{_SELECT} WHERE r.organization_id = :organization_id"
        " AND r.disconnected_at IS NULL AND r.id > :after"
        " AND LOWER(r.full_name) LIKE :pattern ESCAPE '!' ORDER BY r.id"
        " LIMIT :limit",
        organization_id=organization_id,
        pattern=contains_pattern(search.lower()),
        after=after or "",
        limit=2**62 if limit is None else limit,
    )
    return [repo_view(row) for row in rows]


async def get_repo(db: Database, organization_id: str, repo: str) -> RepoView:
    """By its identifier or its full name, which always has a slash.

    Raises `repo_not_found`, also for a repository of another organization.
    """
    column = "full_name" if "/" in repo else "id"
    row = await db.fetch_one(
        f"{_SELECT} WHERE r.{column} = :repo AND r.organization_id = :organization_id"
        " AND r.disconnected_at IS NULL",
        repo=repo,
        organization_id=organization_id,
    )
    if row is None:
        raise Problem(
            "repo_not_found",
            f"There is no repository {repo!r} in this organization; GET /repos lists them.",
        )
    return repo_view(row)


async def find_repo(
    reader: Database | Transaction, organization_id: str, full_name: str
) -> RepoView:
    row = await reader.fetch_one(
        f"{_SELECT} WHERE r.organization_id = :organization_id"
        " AND r.full_name = :full_name AND r.disconnected_at IS NULL",
        organization_id=organization_id,
        full_name=full_name,
    )
    if row is None:
        raise Problem(
            "repo_not_connected",
            f"The repository {full_name!r} is not connected; "
            "`agentjobs repos list` shows the connected ones.",
        )
    return repo_view(row)


async def lock_repo(tx: Transaction, organization_id: str, full_name: str) -> RepoView:
    """Finds the repository as it is until the end of the transaction."""
    repo = await find_repo(tx, organization_id, full_name)
    await tx.fetch_one(
        "SELECT 1 FROM repos WHERE id = :id /*postgresql FOR NO KEY UPDATE */", id=repo.id
    )
    return await find_repo(tx, organization_id, full_name)


async def reload_repo(reader: Database | Transaction, repo_id: str) -> RepoView | None:
    """None if it was disconnected."""
    row = await reader.fetch_one(
        f"{_SELECT} WHERE r.id = :id AND r.disconnected_at IS NULL", id=repo_id
    )
    return None if row is None else repo_view(row)


def repo_view(row: Row) -> RepoView:
    indexing = row["index_due_at"] is not None and row["index_error"] is None
    return to_struct(
        row,
        RepoView,
        index_progress=IndexProgress(row["index_done"] or 0, row["index_total"])
        if indexing
        else None,
        lifted_paths=msgspec.json.decode(row["lifted_paths"], type=tuple[str, ...]),
        required_tags=msgspec.json.decode(row["required_tags"], type=tuple[str, ...]),
    )

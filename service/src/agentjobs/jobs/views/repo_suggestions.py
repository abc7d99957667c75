"""Repositories that a field suggests: those of the newest jobs, others, those still indexing."""

from agentjobs.repos.queries import (
    IS_INDEXED,
    REPO_COLUMNS,
    REPO_TABLES,
    RepoView,
    repo_view,
)
from agentjobs.store.database import Database
from agentjobs.store.like_pattern import contains_pattern

_RECENT_JOBS = 200


async def suggest_repos(
    db: Database, organization_id: str, *, search: str = "", limit: int
) -> list[RepoView]:
    """`search` is a part of their names, in any case. Equal ones are in the order of names."""
    rows = await db.fetch_all(
        f"WITH p AS (SELECT r.id, CASE WHEN NOT {IS_INDEXED} THEN 2"
        "  WHEN r.full_name IN (SELECT j.repo FROM"
        "   (SELECT repo FROM jobs WHERE organization_id = :organization_id"
        f"   ORDER BY id DESC LIMIT {_RECENT_JOBS}) j) THEN 0 ELSE 1 END AS rank_value"
        " FROM repos r LEFT JOIN repo_index i ON i.repo_id = r.id"
        " WHERE r.organization_id = :organization_id AND r.disconnected_at IS NULL"
        " AND LOWER(r.full_name) LIKE :pattern ESCAPE '!'"
        " ORDER BY rank_value, r.full_name LIMIT :limit)"
        f" SELECT {REPO_COLUMNS} FROM {REPO_TABLES} JOIN p ON p.id = r.id"
        " ORDER BY p.rank_value, r.full_name",
        organization_id=organization_id,
        pattern=contains_pattern(search.lower()),
        limit=limit,
    )
    return [repo_view(row) for row in rows]

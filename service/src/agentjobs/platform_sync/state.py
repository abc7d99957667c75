"""The sync state of repositories, as pages show it: connection, last sync, errors."""

import msgspec

from agentjobs.connections.rows import count_repositories
from agentjobs.repos.hook_rows import HookRow, hook_of_repo, hooks_of_connection
from agentjobs.store.database import Database, Row, to_struct

MAX_LISTED = 100

_FIELDS = (
    "r.id, r.full_name, r.platform, r.head_commit, COALESCE(i.status, 'indexing') AS index_status,"
    " q.due_at, COALESCE(q.failures, 0) AS failures, s.error, s.synced_at"
)


class RepoSyncState(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the repository's page on its platform."""

    id: str
    full_name: str
    platform: str
    url: str
    # No commit has been fetched yet.
    is_new: bool
    index_status: str
    due_at: int | None
    failures: int
    error: str | None
    synced_at: int | None
    connection_id: str
    connection: str
    connection_error: str | None
    # None if the service registers no webhook for it.
    hook: HookRow | None = None


class ConnectedRepos(msgspec.Struct, frozen=True):
    """`repos` are the first of `total`, sorted by name."""

    repos: list[RepoSyncState]
    total: int


_SELECT = (
    f"SELECT {_FIELDS}, c.id AS connection_id, c.name AS connection, c.url AS platform_url,"
    " c.error AS connection_error"
    " FROM repos r JOIN platform_connections c ON c.id = r.connection_id"
    " LEFT JOIN repo_index i ON i.repo_id = r.id LEFT JOIN sync_queue q ON q.repo_id = r.id"
    " LEFT JOIN repo_sync s ON s.repo_id = r.id"
    " WHERE r.disconnected_at IS NULL"
)


async def sync_state(db: Database, repo_id: str) -> RepoSyncState | None:
    """None for a repository of the platform `local`."""
    row = await db.fetch_one(f"{_SELECT} AND r.id = :repo_id", repo_id=repo_id)
    return None if row is None else _state_from(row, await hook_of_repo(db, repo_id))


async def repos_of_connection(
    db: Database, connection_id: str, *, limit: int = MAX_LISTED
) -> ConnectedRepos:
    rows = await db.fetch_all(
        f"{_SELECT} AND r.connection_id = :connection_id ORDER BY r.full_name LIMIT :limit",
        connection_id=connection_id,
        limit=limit,
    )
    hooks = {hook.repo_id: hook for hook in await hooks_of_connection(db, connection_id)}
    repos = [_state_from(row, hooks.get(row["id"])) for row in rows]
    if len(repos) < limit:
        return ConnectedRepos(repos, len(repos))
    return ConnectedRepos(repos, await count_repositories(db, connection_id))


async def count_by_connection(db: Database, organization_id: str) -> dict[str, int]:
    rows = await db.fetch_all(
        "SELECT connection_id, COUNT(*) AS number FROM repos"
        " WHERE organization_id = :organization_id AND connection_id IS NOT NULL"
        " AND disconnected_at IS NULL GROUP BY connection_id",
        organization_id=organization_id,
    )
    return {row["connection_id"]: row["number"] for row in rows}


def _state_from(row: Row, hook: HookRow | None) -> RepoSyncState:
    url = f"{row['platform_url']}/{row['full_name']}"
    return to_struct(row, RepoSyncState, url=url, is_new=not row["head_commit"], hook=hook)

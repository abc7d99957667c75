"""Drops what a worker has cached of repositories whose organization was deleted."""

from agentjobs.loops.loop import PeriodicLoop
from agentjobs.store.database import Database
from agentjobs.workspace.checkout import Workspaces

_INTERVAL_SECONDS = 600.0


def deleted_repos_loop(db: Database, workspaces: Workspaces) -> PeriodicLoop:
    return PeriodicLoop(
        "deleted repositories",
        _INTERVAL_SECONDS,
        lambda: drop_deleted_repos(db, workspaces),
        first_after_seconds=_INTERVAL_SECONDS,
    )


async def drop_deleted_repos(db: Database, workspaces: Workspaces) -> None:
    cached = await workspaces.cached_repos()
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE id IN (SELECT value FROM each(:ids))", ids=list(cached)
    )
    if deleted := cached - {row["id"] for row in rows}:
        await workspaces.drop_repos(deleted)

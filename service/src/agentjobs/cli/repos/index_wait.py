"""Waits until a running service has indexed a repository."""

import asyncio
from typing import TYPE_CHECKING

from agentjobs.cli.live_line import can_show_line, clear_line, show_line
from agentjobs.cli.output import print_note

if TYPE_CHECKING:
    from agentjobs.repos.queries import RepoView
    from agentjobs.store.database import Database

INDEX_FAILED = 1
_POLL_SECONDS = 0.5


async def wait_for_index(db: "Database", repo: "RepoView") -> "RepoView":
    """The repository when it is ready, or its index has failed."""
    print_note(f"{repo.full_name} is connected; waiting for its index")
    is_live = can_show_line()
    try:
        while repo.index_status != "ready" and repo.index_error is None:
            await _check_service(db)
            await asyncio.sleep(_POLL_SECONDS)
            repo = await _reload(db, repo)
            if is_live and repo.index_progress is not None:
                total = repo.index_progress.total
                of_all = "" if total is None else f" of {total}"
                show_line(f"indexing: {repo.index_progress.done}{of_all} files")
    finally:
        if is_live:
            clear_line()
    return repo


async def _check_service(db: "Database") -> None:
    from agentjobs.fleet.processes import can_index
    from agentjobs_runtime.problems import Problem

    if not await can_index(db):
        raise Problem(
            "no_service",
            "The repository is connected, but no service is running that could index it: start"
            " `agentjobs up`, or `agentjobs serve`.",
        )


async def _reload(db: "Database", repo: "RepoView") -> "RepoView":
    from agentjobs.repos.queries import reload_repo
    from agentjobs_runtime.problems import Problem

    reloaded = await reload_repo(db, repo.id)
    if reloaded is None:
        raise Problem("repo_not_connected", f"{repo.full_name} was disconnected meanwhile.")
    return reloaded

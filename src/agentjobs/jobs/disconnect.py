"""Disconnecting a repository together with what waits for it."""

from agentjobs.clock import now_ms
from agentjobs.jobs.queue.transition import apply, failed
from agentjobs.repos import connect
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Database, Transaction

_MESSAGE = "The repository was disconnected before the job could start."


async def disconnect_repository(db: Database, organization: str, full_name: str) -> RepoView:
    """Its queued jobs fail now; one that runs may finish its agent and then finds no repository."""
    return await connect.disconnect_repository(db, organization, full_name, also=_fail_waiting)


async def _fail_waiting(tx: Transaction, repo_id: str) -> None:
    waiting = await tx.fetch_all(
        "SELECT id FROM jobs WHERE repo_id = :repo_id AND status = 'queued'", repo_id=repo_id
    )
    for row in waiting:
        await apply(tx, failed(row["id"], now_ms(), "repo_unavailable", _MESSAGE))

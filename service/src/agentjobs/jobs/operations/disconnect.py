"""Disconnects a repository and fails the jobs that have not started, or are not published yet."""

from agentjobs.environments.repo_settings import forget_repo
from agentjobs.jobs.queue.transition import apply, to_failed
from agentjobs.repos import connect
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Database, Transaction

# Uses the index of the organization's jobs by status.
_UNFINISHED = (
    "SELECT id, kept_at FROM jobs WHERE repo_id = :repo_id"
    " AND (status || '' = 'queued' OR (status || '' = 'running' AND kept_at IS NOT NULL))"
    " AND organization_id || '' ="
    " (SELECT r.organization_id || '' FROM repos r WHERE r.id = :repo_id)"
)
_MESSAGE = "The repository was disconnected before the job could start."
_PUBLISHING_MESSAGE = "The repository was disconnected before the work could be published."


async def disconnect_repository(db: Database, organization: str, full_name: str) -> RepoView:
    """Queued jobs fail now; a running job fails when it tries to push."""
    return await connect.disconnect_repository(db, organization, full_name, also=_disconnect)


async def _disconnect(tx: Transaction, repo_id: str) -> None:
    await forget_repo(tx, repo_id)
    rows = await tx.fetch_all(_UNFINISHED, repo_id=repo_id)
    now = await tx.clock_ms()
    for row in rows:
        message = _MESSAGE if row["kept_at"] is None else _PUBLISHING_MESSAGE
        await apply(tx, to_failed(row["id"], now, "repo_unavailable", message))

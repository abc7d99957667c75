"""The head of a repository's default branch, recorded after pushes."""

from agentjobs.repos.queues import request_index
from agentjobs.store.database import Transaction


async def record_pushed_head(tx: Transaction, repo_id: str, head: str) -> None:
    """Make the repository due for an index of the new head."""
    changed = await tx.execute(
        "UPDATE repos SET head_commit = :head WHERE id = :repo_id AND disconnected_at IS NULL",
        repo_id=repo_id,
        head=head,
    )
    if changed:
        await request_index(tx, repo_id)
        await tx.invalidate("repos")


async def correct_head(tx: Transaction, repo_id: str, stored: str, actual: str) -> None:
    """Replace a stored head that a crash between a push and its record left behind."""
    if stored != actual:
        await tx.execute(
            "UPDATE repos SET head_commit = :actual WHERE id = :id AND head_commit = :stored",
            id=repo_id,
            stored=stored,
            actual=actual,
        )

"""Updates of the table `repos` on behalf of packages that own only some of its columns."""

from agentjobs.store.database import Transaction

SCAN_TOPIC = "scan"


async def request_scan(tx: Transaction, repo_id: str) -> None:
    """Make the repository due for a scan of its dependencies."""
    await tx.execute(
        "UPDATE repos SET scan_due_at = :now WHERE id = :id", id=repo_id, now=await tx.clock_ms()
    )
    tx.announce(SCAN_TOPIC)


async def correct_head(tx: Transaction, repo_id: str, stored: str, actual: str) -> None:
    """Replace a stored head that a crash between a push and its record left behind."""
    if stored != actual:
        await tx.execute(
            "UPDATE repos SET head_commit = :actual WHERE id = :id AND head_commit = :stored",
            id=repo_id,
            stored=stored,
            actual=actual,
        )

"""What a job's credential allows: writing its own branch, while it is claimed and not cancelled."""

from agentjobs.organizations.tokens import token_hash
from agentjobs.store.database import Transaction


async def may_write_branch(tx: Transaction, repo_id: str, branch: str, credential: str) -> bool:
    """Checked in the caller's transaction, so that a claim cannot end in between."""
    row = await tx.fetch_one(
        "SELECT id FROM jobs WHERE credential_hash = :hash AND repo_id = :repo_id"
        " AND branch = :branch AND lease_owner IS NOT NULL AND cancel_requested_at IS NULL"
        " AND EXISTS (SELECT 1 FROM repos r WHERE r.id = :repo_id AND r.disconnected_at IS NULL)"
        " /*postgresql FOR SHARE */",
        hash=token_hash(credential),
        repo_id=repo_id,
        branch=branch,
    )
    return row is not None

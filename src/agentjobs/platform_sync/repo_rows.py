"""What a platform said of a repository, written down: its name, its default branch, its head."""

from agentjobs.clock import now_ms
from agentjobs.organizations import audit
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.store.database import Database, IntegrityError, Transaction


async def follow_name(db: Database, repo: PlatformRepo, full_name: str) -> bool:
    """False: another repository has the name it got."""
    entry = audit.entry("repo.renamed", full_name, before=repo.full_name)
    try:
        await db.transact(_rename, repo, full_name, entry)
    except IntegrityError:
        return False
    return True


async def record_head(
    tx: Transaction, repo: PlatformRepo, branch: str, head: str, *, again: bool
) -> None:
    """The copy has it already. `again`: index it even if nothing moved, unless that was done."""
    is_moved = (repo.default_branch, repo.head_commit) != (branch, head)
    if not is_moved and not again:
        return
    only = "" if is_moved else " AND index_status <> 'ready' AND index_due_at IS NULL"
    changed = await tx.execute(
        "UPDATE repos SET default_branch = :branch, head_commit = :head, index_due_at = :now,"
        " index_error = CASE WHEN index_status = 'ready' THEN index_error ELSE NULL END"
        f" WHERE id = :id AND disconnected_at IS NULL{only}",
        id=repo.id,
        branch=branch,
        head=head,
        now=now_ms(),
    )
    if changed:
        await tx.invalidate("repos")
        tx.announce("index")


async def _rename(tx: Transaction, repo: PlatformRepo, full_name: str, entry: audit.Entry) -> None:
    changed = await tx.execute(
        "UPDATE repos SET full_name = :full_name WHERE id = :id AND disconnected_at IS NULL",
        id=repo.id,
        full_name=full_name,
    )
    if changed:
        await audit.write(tx, repo.organization_id, entry)
        await tx.invalidate("repos")

"""Rows of repositories hosted on a platform: connecting, renaming, moving the head.

`platform_sync` updates the columns that schedule a sync; everything else is written here.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.store.database import Transaction
from agentjobs_runtime.identifiers import new_id


class NewPlatformRepo(msgspec.Struct, frozen=True, kw_only=True):
    organization_id: str
    full_name: str
    platform: str
    source: str
    default_branch: str
    connection_id: str
    external_id: str


async def insert_platform_repo(tx: Transaction, repo: NewPlatformRepo, entry: audit.Entry) -> str:
    """Store a repository that is due for its first sync; it is indexed after the first fetch.

    Returns its ID.
    """
    repo_id = new_id("repo")
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, index_status, created_at, next_pull_number, connection_id, external_id,"
        " sync_due_at) VALUES (:id, :organization_id, :full_name, :platform, :source,"
        " :default_branch, '', 'indexing', :now, 1, :connection_id, :external_id, :now)",
        id=repo_id,
        now=await tx.clock_ms(),
        **msgspec.structs.asdict(repo),
    )
    await audit.write(tx, repo.organization_id, entry)
    await tx.invalidate("repos")
    tx.announce("platforms")
    return repo_id


async def rename_repo(
    tx: Transaction, repo_id: str, organization_id: str, full_name: str, entry: audit.Entry
) -> None:
    changed = await tx.execute(
        "UPDATE repos SET full_name = :full_name WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        full_name=full_name,
    )
    if changed:
        await audit.write(tx, organization_id, entry)
        await tx.invalidate("repos")


async def record_fetched_head(
    tx: Transaction, repo_id: str, branch: str, head: str, *, only_unindexed: bool
) -> None:
    """Record the head that was fetched and make the repository due for indexing.

    `only_unindexed`: the head has not moved, so a repository that is indexed stays as it is.
    """
    only = " AND index_status <> 'ready' AND index_due_at IS NULL" if only_unindexed else ""
    changed = await tx.execute(
        "UPDATE repos SET default_branch = :branch, head_commit = :head, index_due_at = :now,"
        " index_error = CASE WHEN index_status = 'ready' THEN index_error ELSE NULL END"
        f" WHERE id = :id AND disconnected_at IS NULL{only}",
        id=repo_id,
        branch=branch,
        head=head,
        now=await tx.clock_ms(),
    )
    if changed:
        await tx.invalidate("repos")
        tx.announce("index")


async def record_first_fetch_error(tx: Transaction, repo_id: str, reason: str) -> None:
    """Show why a repository that was never fetched is not indexed."""
    await tx.execute(
        "UPDATE repos SET index_error = :reason WHERE id = :id AND index_status = 'indexing'"
        " AND index_due_at IS NULL",
        id=repo_id,
        reason=reason,
    )

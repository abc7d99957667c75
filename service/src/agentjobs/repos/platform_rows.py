"""Rows of repositories hosted on a platform: connecting, renaming, moving the head."""

import msgspec

from agentjobs.organizations import audit
from agentjobs.repos.queues import request_first_sync, request_index
from agentjobs.store.database import Transaction
from agentjobs_runtime.identifiers import new_id

_UNINDEXED = (
    " AND NOT EXISTS (SELECT 1 FROM repo_index i WHERE i.repo_id = repos.id"
    "  AND i.status = 'ready')"
    " AND NOT EXISTS (SELECT 1 FROM index_queue q WHERE q.repo_id = repos.id"
    "  AND q.due_at IS NOT NULL)"
)


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
        " head_commit, created_at, connection_id, external_id) VALUES (:id, :organization_id,"
        " :full_name, :platform, :source, :default_branch, '', :now, :connection_id, :external_id)",
        id=repo_id,
        now=await tx.clock_ms(),
        **msgspec.structs.asdict(repo),
    )
    await request_first_sync(tx, repo_id)
    await audit.write(tx, repo.organization_id, entry)
    await tx.invalidate("repos")
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
    changed = await tx.execute(
        "UPDATE repos SET default_branch = :branch, head_commit = :head"
        f" WHERE id = :id AND disconnected_at IS NULL{_UNINDEXED if only_unindexed else ''}",
        id=repo_id,
        branch=branch,
        head=head,
    )
    if changed:
        await request_index(tx, repo_id)
        await tx.invalidate("repos")

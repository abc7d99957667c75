"""Requests a build of a repository's environment, as people and their admins do."""

from agentjobs.environments.builds import request_build
from agentjobs.environments.repo_settings import retire
from agentjobs.organizations import audit
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.environments.records import NewBuild


async def request_environment_build(
    db: Database, organization_id: str, repo: RepoView, *, is_rebuild: bool = False
) -> str:
    """The ID of the build, which a worker claims. A rebuild retires all snapshots before."""
    entry = audit.entry(
        "repo.environment_rebuilt" if is_rebuild else "repo.environment_built", repo.full_name
    )
    return await db.transact(_request, organization_id, repo, is_rebuild, entry)


async def _request(
    tx: Transaction, organization_id: str, repo: RepoView, is_rebuild: bool, entry: audit.Entry
) -> str:
    if is_rebuild:
        await retire(tx, repo.id)
    new = NewBuild(
        organization_id=organization_id,
        repo_id=repo.id,
        reason="request",
        branch=repo.default_branch,
    )
    build_id = await request_build(tx, new)
    await audit.write(tx, organization_id, entry)
    return build_id

"""What the service itself has set for the environment of a repository."""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.environments.definition import EnvironmentDefinition
from agentjobs.store.database import Database, Transaction


class RepoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`definition` wins over the repository's files. A higher `generation` retires snapshots.

    Setup of `trusted_branches` gets network and secrets, as that of the default branch does.
    """

    definition: EnvironmentDefinition | None = None
    trusted_branches: tuple[str, ...] = ()
    generation: int = 0


async def load_repo_settings(db: Database, repo_id: str) -> RepoSettings:
    row = await db.fetch_one(
        "SELECT definition, trusted_branches, generation FROM repo_environments"
        " WHERE repo_id = :repo_id",
        repo_id=repo_id,
    )
    if row is None:
        return RepoSettings()
    text = row["definition"]
    return RepoSettings(
        definition=None if text is None else msgspec.json.decode(text, type=EnvironmentDefinition),
        trusted_branches=msgspec.json.decode(row["trusted_branches"], type=tuple[str, ...]),
        generation=row["generation"],
    )


async def retire(tx: Transaction, repo_id: str) -> bool:
    """No snapshot made until now is used again. False if the repository is not connected."""
    changed = await tx.execute(
        "INSERT INTO repo_environments (repo_id, organization_id, trusted_branches, generation,"
        " updated_at) SELECT r.id, r.organization_id, '[]', 1, CAST(:now AS BIGINT) FROM repos r"
        " WHERE r.id = :repo_id AND r.disconnected_at IS NULL"
        " ON CONFLICT (repo_id) DO UPDATE SET generation = repo_environments.generation + 1,"
        " updated_at = excluded.updated_at",
        repo_id=repo_id,
        now=now_ms(),
    )
    return changed > 0


async def forget_repo(tx: Transaction, repo_id: str) -> None:
    """Of a repository that is disconnected."""
    await tx.execute("DELETE FROM repo_environments WHERE repo_id = :repo_id", repo_id=repo_id)
    await tx.execute(
        "DELETE FROM environment_secrets WHERE repo_id = :repo_id AND organization_id ="
        " (SELECT r.organization_id FROM repos r WHERE r.id = :repo_id)",
        repo_id=repo_id,
    )

"""What the service itself has set for the environment of a repository."""

import msgspec

from agentjobs.environments.definition import EnvironmentDefinition
from agentjobs.store.database import Database


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

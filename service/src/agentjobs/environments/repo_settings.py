"""What the service itself has set for the environment of a repository."""

from collections.abc import Sequence

import msgspec

from agentjobs.organizations import audit
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.git.remote import is_branch_name
from agentjobs_runtime.problems import Problem

MAX_TRUSTED_BRANCHES = 100


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


@audit.in_transaction
async def set_definition(
    tx: Transaction,
    organization_id: str,
    repo_id: str,
    full_name: str,
    definition: EnvironmentDefinition | None,
) -> None:
    """None lets the repository's files decide again. Expects a valid definition."""
    stored = None if definition is None else msgspec.json.encode(definition).decode()
    row = await _lock(tx, repo_id)
    if row["definition"] == stored:
        return
    await tx.execute(
        "UPDATE repo_environments SET definition = :stored,"
        " updated_at = :now WHERE repo_id = :repo_id",
        repo_id=repo_id,
        stored=stored,
        now=now_ms(),
    )
    action = "repo.environment_removed" if definition is None else "repo.environment_set"
    await audit.record(tx, organization_id, action, full_name)


@audit.in_transaction
async def set_trusted_branches(
    tx: Transaction,
    organization_id: str,
    repo_id: str,
    full_name: str,
    branches: Sequence[str],
) -> tuple[str, ...]:
    """A branch that is removed retires the snapshots, because one of them may be from it."""
    trusted = tuple(sorted(set(branches)))
    if len(trusted) > MAX_TRUSTED_BRANCHES:
        raise Problem(
            "too_many_branches",
            f"A repository has at most {MAX_TRUSTED_BRANCHES} trusted branches.",
        )
    for branch in trusted:
        if not is_branch_name(branch):
            raise Problem("invalid_branch", f"{branch!r} is not the name of a branch.")
    row = await _lock(tx, repo_id)
    before = msgspec.json.decode(row["trusted_branches"], type=tuple[str, ...])
    if before == trusted:
        return trusted
    await tx.execute(
        "UPDATE repo_environments SET trusted_branches = :trusted,"
        " updated_at = :now WHERE repo_id = :repo_id",
        repo_id=repo_id,
        trusted=msgspec.json.encode(trusted).decode(),
        now=now_ms(),
    )
    if not set(before) <= set(trusted):
        await retire(tx, repo_id)
    await audit.record(
        tx, organization_id, "repo.trusted_branches_set", full_name, branches=trusted
    )
    return trusted


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
    """Deletes the settings of a repository that is disconnected."""
    await tx.execute("DELETE FROM repo_environments WHERE repo_id = :repo_id", repo_id=repo_id)
    await tx.execute(
        "DELETE FROM environment_secrets WHERE repo_id = :repo_id AND organization_id ="
        " (SELECT r.organization_id FROM repos r WHERE r.id = :repo_id)",
        repo_id=repo_id,
    )


async def _lock(tx: Transaction, repo_id: str) -> Row:
    """The row of the repository, which is created if there is none."""
    await tx.execute(
        "INSERT INTO repo_environments (repo_id, organization_id, trusted_branches, generation,"
        " updated_at) SELECT r.id, r.organization_id, '[]', 0, CAST(:now AS BIGINT) FROM repos r"
        " WHERE r.id = :repo_id AND r.disconnected_at IS NULL ON CONFLICT (repo_id) DO NOTHING",
        repo_id=repo_id,
        now=now_ms(),
    )
    row = await tx.fetch_one(
        "SELECT definition, trusted_branches FROM repo_environments WHERE repo_id = :repo_id"
        " /*postgresql FOR UPDATE */",
        repo_id=repo_id,
    )
    if row is None:
        raise Problem("repo_not_connected", "The repository is no longer connected.")
    return row

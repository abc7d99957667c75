"""Repositories with dependencies for tests of findings, without git or an index."""

from collections.abc import Sequence

from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from tests.support.repo_rows import update_repos

ORGANIZATION = "org_acme"
# Ecosystem, name and version.
Package = tuple[str, str, str | None]


async def add_repo(
    db: Database, full_name: str, packages: Sequence[Package], organization_id: str = ORGANIZATION
) -> str:
    """Indexed, and not due for a scan; its manifest is named after the ecosystem."""
    repo_id = new_id("repo")
    await db.transact(_insert, organization_id, repo_id, full_name)
    await db.transact(set_dependencies, repo_id, packages)
    return repo_id


async def set_dependencies(tx: Transaction, repo_id: str, packages: Sequence[Package]) -> None:
    await tx.execute("DELETE FROM dependencies WHERE repo_id = :repo_id", repo_id=repo_id)
    for position, (ecosystem, name, version) in enumerate(packages):
        await tx.execute(
            "INSERT INTO dependencies (repo_id, position, ecosystem, name, version, requirement,"
            " direct, scope, manifest, parents, purl) VALUES (:repo_id, :position, :ecosystem,"
            " :name, :version, '', :direct, 'runtime', :manifest, '[]', '')",
            repo_id=repo_id,
            position=position,
            ecosystem=ecosystem,
            name=name,
            version=version,
            direct=True,
            manifest=f"{ecosystem}.lock",
        )


async def due_scans(db: Database) -> list[str]:
    rows = await db.fetch_all(
        "SELECT repo_id AS id FROM scan_queue WHERE due_at <= :now ORDER BY repo_id",
        now=now_ms() + 1,
    )
    return [row["id"] for row in rows]


async def make_due(tx: Transaction, repo_id: str) -> None:
    await update_repos(tx, "scan_due_at = 1", "r.id = :id", id=repo_id)


async def _insert(tx: Transaction, organization_id: str, repo_id: str, full_name: str) -> None:
    await tx.execute(
        "INSERT INTO organizations (id, name, plan, created_at) VALUES (:id, :id, 'free', 0)"
        " ON CONFLICT DO NOTHING",
        id=organization_id,
    )
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at) VALUES (:id, :organization_id,"
        " :full_name, 'local', '', 'main', :commit, 0)",
        id=repo_id,
        organization_id=organization_id,
        full_name=full_name,
        commit="0" * 40,
    )
    assignments = "index_status = 'ready', indexed_commit = :commit"
    await update_repos(tx, assignments, "r.id = :id", id=repo_id, commit="0" * 40)

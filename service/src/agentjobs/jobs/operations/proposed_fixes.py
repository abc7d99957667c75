"""The table `proposed_fixes`: fixes that an open pull request has, whoever opened it."""

from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.jobs.operations.auto_trigger_rows import FixKey, fix_key, rows_for_findings
from agentjobs.store.database import Database, Row, Transaction


class ProposingPull(msgspec.Struct, frozen=True):
    number: int
    url: str


async def replace_proposed_fixes(
    tx: Transaction, repo_id: str, proposed: Mapping[FixKey, ProposingPull]
) -> None:
    await tx.execute("DELETE FROM proposed_fixes WHERE repo_id = :repo_id", repo_id=repo_id)
    await add_proposed_fixes(tx, repo_id, proposed)


async def add_proposed_fixes(
    tx: Transaction, repo_id: str, proposed: Mapping[FixKey, ProposingPull]
) -> None:
    for (manifest, ecosystem, name, fix_version), pull in proposed.items():
        await tx.execute(
            "INSERT INTO proposed_fixes (repo_id, manifest, ecosystem, name, fix_version,"
            " pull_number, pull_url) VALUES (:repo_id, :manifest, :ecosystem, :name, :fix_version,"
            " :pull_number, :pull_url) ON CONFLICT DO NOTHING",
            repo_id=repo_id,
            manifest=manifest,
            ecosystem=ecosystem,
            name=name,
            fix_version=fix_version,
            pull_number=pull.number,
            pull_url=pull.url,
        )


async def load_proposed_fixes(db: Database, repo_id: str) -> dict[FixKey, ProposingPull]:
    rows = await db.fetch_all(
        "SELECT * FROM proposed_fixes WHERE repo_id = :repo_id", repo_id=repo_id
    )
    return {fix_key(row): _pull(row) for row in rows}


async def pulls_for_findings(
    db: Database, findings: Sequence[FindingView]
) -> dict[str, ProposingPull]:
    """By the finding's identifier."""
    rows = await rows_for_findings(db, "SELECT t.* FROM proposed_fixes t", findings)
    return {finding_id: _pull(row) for finding_id, row in rows.items()}


def _pull(row: Row) -> ProposingPull:
    return ProposingPull(row["pull_number"], row["pull_url"])

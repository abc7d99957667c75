"""The table `proposed_fixes`: fixes that an open pull request has, whoever opened it."""

from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.jobs.operations.auto_trigger_rows import FixKey
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
    return {_key(row): ProposingPull(row["pull_number"], row["pull_url"]) for row in rows}


async def pulls_for_findings(
    db: Database, findings: Sequence[FindingView]
) -> dict[str, ProposingPull]:
    """By the finding's identifier."""
    if not findings:
        return {}
    rows = await db.fetch_all(
        "SELECT * FROM proposed_fixes WHERE repo_id IN (SELECT value FROM each(:repo_ids))"
        " AND name IN (SELECT value FROM each(:names))",
        repo_ids=sorted({finding.repo_id for finding in findings}),
        names=sorted({finding.name for finding in findings}),
    )
    pulls = {
        (row["repo_id"], *_key(row)): ProposingPull(row["pull_number"], row["pull_url"])
        for row in rows
    }
    keys = {
        finding.id: (f.repo_id, f.manifest, f.ecosystem, f.name, f.fix_version)
        for finding in findings
        if (f := finding).fix_version is not None
    }
    return {finding_id: pulls[key] for finding_id, key in keys.items() if key in pulls}


def _key(row: Row) -> FixKey:
    return row["manifest"], row["ecosystem"], row["name"], row["fix_version"]

"""Which job proposes which fix: one job per fix, ever."""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.clock import now_ms
from agentjobs.jobs.states import JobStatus
from agentjobs.store.database import Database, Transaction

# A manifest, an ecosystem, a package, the version to upgrade to.
FixKey = tuple[str, str, str, str]


class TriggeredJob(msgspec.Struct, frozen=True):
    job_id: str
    status: JobStatus
    pr_url: str | None
    pr_number: int | None


async def jobs_for_findings(
    db: Database, findings: Sequence[FindingView]
) -> dict[str, TriggeredJob]:
    """By the finding's identifier, without findings whose job does not exist or was pruned."""
    fixable = [finding for finding in findings if finding.fix_version is not None]
    if not fixable:
        return {}
    rows = await db.fetch_all(
        "SELECT t.repo_id, t.manifest, t.ecosystem, t.name, t.fix_version, j.id, j.status,"
        " j.pr_url, j.pr_number FROM auto_triggers t JOIN jobs j ON j.id = t.job_id"
        " WHERE t.repo_id IN (SELECT value FROM each(:repo_ids))"
        " AND t.name IN (SELECT value FROM each(:names))",
        repo_ids=sorted({finding.repo_id for finding in fixable}),
        names=sorted({finding.name for finding in fixable}),
    )
    by_fix = {
        (row["repo_id"], row["manifest"], row["ecosystem"], row["name"], row["fix_version"]): row
        for row in rows
    }
    jobs = {}
    for finding in fixable:
        fix = (finding.manifest, finding.ecosystem, finding.name, finding.fix_version)
        row = by_fix.get((finding.repo_id, *fix))
        if row is not None:
            jobs[finding.id] = TriggeredJob(
                row["id"], row["status"], row["pr_url"], row["pr_number"]
            )
    return jobs


async def insert_trigger(tx: Transaction, repo_id: str, job_id: str, fix: FixKey) -> bool:
    """Return False when the fix already has a job."""
    manifest, ecosystem, name, fix_version = fix
    inserted = await tx.execute(
        "INSERT INTO auto_triggers (repo_id, manifest, ecosystem, name, fix_version, job_id,"
        " created_at) VALUES (:repo_id, :manifest, :ecosystem, :name, :fix_version, :job_id, :now)"
        " ON CONFLICT DO NOTHING",
        repo_id=repo_id,
        manifest=manifest,
        ecosystem=ecosystem,
        name=name,
        fix_version=fix_version,
        job_id=job_id,
        now=now_ms(),
    )
    return bool(inserted)


async def take_over_fix(db: Database, repo_id: str, job_id: str, fix: FixKey) -> str | None:
    """Record that this job proposes another fix than the one it was created for.

    Return the job that already proposes that fix, unless it failed.
    """
    return await db.transact(_take_over_fix, repo_id, job_id, fix)


async def _take_over_fix(tx: Transaction, repo_id: str, job_id: str, fix: FixKey) -> str | None:
    if await insert_trigger(tx, repo_id, job_id, fix):
        return None
    manifest, ecosystem, name, fix_version = fix
    row = await tx.fetch_one(
        "SELECT j.id FROM auto_triggers t JOIN jobs j ON j.id = t.job_id"
        " WHERE t.repo_id = :repo_id AND t.manifest = :manifest AND t.ecosystem = :ecosystem"
        " AND t.name = :name AND t.fix_version = :fix_version AND t.job_id <> :job_id"
        " AND j.status NOT IN ('failed', 'cancelled')",
        repo_id=repo_id,
        manifest=manifest,
        ecosystem=ecosystem,
        name=name,
        fix_version=fix_version,
        job_id=job_id,
    )
    return None if row is None else str(row["id"])

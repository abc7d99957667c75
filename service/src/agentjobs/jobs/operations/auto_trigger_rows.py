"""Which job proposes which fix: one job per fix, ever."""

from collections.abc import Collection, Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.jobs.states import JobStatus
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms

# A manifest, an ecosystem, a package, the version to upgrade to.
FixKey = tuple[str, str, str, str]


class TriggeredJob(msgspec.Struct, frozen=True):
    job_id: str
    status: JobStatus
    pr_url: str | None
    pr_number: int | None
    # The state of a pull request: open, merged or closed.
    pr_state: str | None = None


async def jobs_for_findings(
    db: Database, findings: Sequence[FindingView]
) -> dict[str, TriggeredJob]:
    """Loads jobs by the finding's ID, without findings whose job does not exist or was pruned."""
    fixable = [finding for finding in findings if finding.fix_version is not None]
    if not fixable:
        return {}
    rows = await db.fetch_all(
        "SELECT t.repo_id, t.manifest, t.ecosystem, t.name, t.fix_version, j.id, j.status,"
        " j.pr_url, j.pr_number, p.state AS pr_state"
        " FROM auto_triggers t JOIN jobs j ON j.id = t.job_id"
        " LEFT JOIN pulls p ON p.repo_id = t.repo_id AND p.number = j.pr_number"
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
                row["id"], row["status"], row["pr_url"], row["pr_number"], row["pr_state"]
            )
    return jobs


async def insert_triggers(
    tx: Transaction, repo_id: str, job_id: str, fixes: Collection[FixKey]
) -> set[FixKey]:
    """Return the fixes that had no job yet."""
    # In one order, so that concurrent transactions do not wait for each other.
    return {fix for fix in sorted(fixes) if await _insert(tx, repo_id, job_id, fix)}


async def claim_fixes(
    tx: Transaction,
    repo_id: str,
    job_id: str,
    fixes: Collection[FixKey],
    created_for: Collection[FixKey] = (),
    # A job that has not started finds out at its start that the fix was taken over.
    proposing: Collection[str] = ("running",),
) -> dict[FixKey, str]:
    """Record that this job proposes the fixes, and return the jobs that propose some already.

    Such a job has completed or one of the statuses `proposing`. Fixes that this job was
    `created_for` may be proposed again once that pull request is no longer open.
    """
    others = {}
    for fix in sorted(fixes):
        if await _insert(tx, repo_id, job_id, fix):
            continue
        # Two requests at once: the second sees the job of the first.
        await tx.fetch_one(
            f"SELECT 1 FROM auto_triggers AS t WHERE {_IS_FIX} /*postgresql FOR UPDATE */",
            repo_id=repo_id,
            **_columns(fix),
        )
        row = await tx.fetch_one(
            f"SELECT t.job_id, j.status, p.state AS pr_state FROM auto_triggers t"
            " LEFT JOIN jobs j ON j.id = t.job_id"
            " LEFT JOIN pulls p ON p.repo_id = t.repo_id AND p.number = j.pr_number"
            f" WHERE {_IS_FIX}",
            repo_id=repo_id,
            **_columns(fix),
        )
        if row is None or row["job_id"] == job_id:
            continue
        if _proposes(row, proposing, is_own=fix in created_for):
            others[fix] = str(row["job_id"])
        else:
            await tx.execute(
                f"UPDATE auto_triggers AS t SET job_id = :job_id WHERE {_IS_FIX}",
                job_id=job_id,
                repo_id=repo_id,
                **_columns(fix),
            )
    return others


take_over_fixes = in_transaction(claim_fixes)


def _proposes(row: Row, proposing: Collection[str], *, is_own: bool) -> bool:
    if row["status"] == "completed":
        return not is_own or bool(row["pr_state"] == "open")
    return row["status"] in proposing


_IS_FIX = (
    "t.repo_id = :repo_id AND t.manifest = :manifest AND t.ecosystem = :ecosystem"
    " AND t.name = :name AND t.fix_version = :fix_version"
)


def _columns(fix: FixKey) -> dict[str, str]:
    return dict(zip(("manifest", "ecosystem", "name", "fix_version"), fix, strict=True))


async def _insert(tx: Transaction, repo_id: str, job_id: str, fix: FixKey) -> bool:
    inserted = await tx.execute(
        "INSERT INTO auto_triggers (repo_id, manifest, ecosystem, name, fix_version, job_id,"
        " created_at) VALUES (:repo_id, :manifest, :ecosystem, :name, :fix_version, :job_id, :now)"
        " ON CONFLICT DO NOTHING",
        repo_id=repo_id,
        **_columns(fix),
        job_id=job_id,
        now=now_ms(),
    )
    return bool(inserted)

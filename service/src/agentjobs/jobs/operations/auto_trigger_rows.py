"""Which job proposes which fix: one job per fix, ever."""

from collections.abc import Collection, Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.jobs.states import JobStatus
from agentjobs.store.database import Database, Row, Transaction, to_struct
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
    rows = await rows_for_findings(
        db,
        "SELECT t.repo_id, t.manifest, t.ecosystem, t.name, t.fix_version, j.id AS job_id,"
        " j.status, j.pr_url, j.pr_number, p.state AS pr_state"
        " FROM auto_triggers t JOIN jobs j ON j.id = t.job_id"
        " LEFT JOIN pulls p ON p.repo_id = t.repo_id AND p.number = j.pr_number",
        findings,
    )
    return {finding_id: to_struct(row, TriggeredJob) for finding_id, row in rows.items()}


async def rows_for_findings(
    db: Database, statement: str, findings: Sequence[FindingView]
) -> dict[str, Row]:
    """The rows of a table `t` of fixes by the finding's ID, without findings that have none."""
    keys = {
        finding.id: (f.repo_id, f.manifest, f.ecosystem, f.name, f.fix_version)
        for finding in findings
        if (f := finding).fix_version is not None
    }
    if not keys:
        return {}
    rows = await db.fetch_all(
        f"{statement} WHERE t.repo_id IN (SELECT value FROM each(:repo_ids))"
        " AND t.name IN (SELECT value FROM each(:names))",
        repo_ids=sorted({key[0] for key in keys.values()}),
        names=sorted({key[3] for key in keys.values()}),
    )
    by_key = {(row["repo_id"], *fix_key(row)): row for row in rows}
    return {finding_id: by_key[key] for finding_id, key in keys.items() if key in by_key}


def fix_key(row: Row) -> FixKey:
    return row["manifest"], row["ecosystem"], row["name"], row["fix_version"]


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

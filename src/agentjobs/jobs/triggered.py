"""Which job goes after a finding: the one that was started for the fix of its package."""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.jobs.states import JobStatus
from agentjobs.store.database import Database


class TriggeredJob(msgspec.Struct, frozen=True):
    job_id: str
    status: JobStatus
    pr_url: str | None
    pr_number: int | None


async def jobs_for_findings(
    db: Database, findings: Sequence[FindingView]
) -> dict[str, TriggeredJob]:
    """By the finding's identifier; without those that nothing was started for, or whose job is
    gone from the list by now."""
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
    found = {}
    for one in fixable:
        row = by_fix.get((one.repo_id, one.manifest, one.ecosystem, one.name, one.fix_version))
        if row is not None:
            found[one.id] = TriggeredJob(row["id"], row["status"], row["pr_url"], row["pr_number"])
    return found

"""The reports of agents that complete without a pull request."""

from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.protocol.outcomes import JobReport


async def store_report(tx: Transaction, job_id: str, report: JobReport, now: int) -> None:
    """Stores the report in the transaction that completes the job."""
    await tx.execute(
        "INSERT INTO job_reports (job_id, markdown, result, created_at)"
        " VALUES (:job_id, :markdown, :result, :now)",
        job_id=job_id,
        markdown=report.markdown,
        result=report.result,
        now=now,
    )


async def load_report(db: Database, job_id: str) -> JobReport | None:
    row = await db.fetch_one(
        "SELECT markdown, result FROM job_reports WHERE job_id = :job_id", job_id=job_id
    )
    return None if row is None else JobReport(row["markdown"], row["result"])


async def has_report(tx: Transaction, job_id: str) -> bool:
    row = await tx.fetch_one(
        "SELECT 1 AS found FROM job_reports WHERE job_id = :job_id", job_id=job_id
    )
    return row is not None

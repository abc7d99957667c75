"""Rules about the runs of agents: their lines in the log, and how many run at a time."""

from collections import defaultdict
from collections.abc import Iterator

from agentjobs.jobs.queue.claim import PUBLISHER
from agentjobs.store.database import Database, Row
from tests.faults.failpoints import LINE
from tests.faults.fleet import LINES
from tests.faults.phases import Report

FINAL = ("completed", "failed", "cancelled")


async def check_logs(
    db: Database, jobs: list[Row], changes: dict[str, list[Row]], reports: list[Report]
) -> list[str]:
    chunks = await db.fetch_all("SELECT job_id, text FROM job_logs ORDER BY job_id, sequence")
    violations = []
    for job in jobs:
        text = "".join(row["text"] for row in chunks if row["job_id"] == job["id"])
        runs: dict[str, list[int]] = defaultdict(list)
        for run, number in LINE.findall(text):
            runs[run].append(int(number))
        violations += [
            f"the log of {job['id']} has the lines {numbers}"
            for numbers in runs.values()
            if numbers != list(range(1, len(numbers) + 1))
        ]
        count = len([*runs.values()][-1]) if runs else 0
        if _has_whole_log(job, changes.get(job["id"], []), reports) and count != LINES:
            violations.append(f"the log of {job['id']} has {count} lines of its last run")
    return violations


def _has_whole_log(job: Row, rows: list[Row], reports: list[Report]) -> bool:
    """Whether the worker that ran the agent last also stored how that run ended, or its work, and
    not a process that rescued the job."""
    worker_of = {
        report.fence: report.process
        for report in reports
        if (report.job_id, report.phase) == (job["id"], "started")
    }
    rescuers = {report.process for report in reports if report.phase == "rescued"}
    return job["error_code"] not in ("cancelled", "worker_lost") and any(
        (
            (row["old_status"] == "running" and row["status"] in FINAL)
            or row["owner"] == PUBLISHER != row["old_owner"]
        )
        and (worker := worker_of.get(row["old_fence"])) is not None
        # The history may not know the writer.
        and row["writer"] in (worker, "")
        and worker not in rescuers
        and (row["writer"] or not rescuers)
        for row in rows
    )


def check_parallel(reports: list[Report], max_parallel: int | None) -> Iterator[str]:
    """After claims were lost."""
    phases = [report.phase for report in reports]
    if max_parallel is None or "rescued" not in phases:
        return
    active: set[tuple[str, int]] = set()
    parallel = 0
    for report in reports[phases.index("rescued") :]:
        if report.phase == "claimed":
            active.add((report.job_id, report.fence))
        elif report.phase == "finishing":
            active.discard((report.job_id, report.fence))
        parallel = max(parallel, len(active))
    if parallel > max_parallel:
        yield f"{parallel} jobs ran at a time on a machine that had lost its claims"

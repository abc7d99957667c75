"""Waits for a job and says how it ended."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

import typer

from agentjobs.cli.jobs.progress import Progress, choose_progress
from agentjobs.cli.output import print_json, print_note, print_result

if TYPE_CHECKING:
    from agentjobs_client import Client, Job

JOB_FAILED = 1
TIMED_OUT = 3
# A service that is shutting down responds without waiting.
_PAUSE_SECONDS = 1.0


def wait_and_print(
    client: "Client",
    job_id: str,
    timeout: float | None,
    json: bool,
    *,
    known_status: str | None = None,
) -> None:
    """Prints the job, its pull request or its report, and exits with 1 unless it completed."""
    try:
        with closing(choose_progress(client, known_status)) as progress:
            job = _wait(client, job_id, timeout, progress)
    except KeyboardInterrupt:
        print_note(f"Stopped waiting for {job_id}. {_next_steps(job_id)}")
        raise
    if json:
        print_json(job.raw)
    if not job.is_finished:
        print_note(f"{job_id} is still {job.status} after {timeout:g} s. {_next_steps(job_id)}")
        raise typer.Exit(TIMED_OUT)
    if not json and (result := job.pr_url or job.report_markdown):
        print_result(result.removesuffix("\n"))
    if not job.is_completed:
        reason = f"{job.error.code}: {job.error.message}" if job.error else "no reason given"
        print_note(f"{job_id} did not complete: {reason}")
        raise typer.Exit(JOB_FAILED)


def _wait(client: "Client", job_id: str, timeout: float | None, progress: Progress) -> "Job":
    """The job when it is finished, or after the timeout. Survives restarts of the service."""
    from agentjobs_client import ClientError
    from agentjobs_client.retry import DEFAULT_AWAY_SECONDS, RetryState

    # A wrong address fails after the client's own retries; later the service may be restarting.
    retry = RetryState(retries=0, away_seconds=DEFAULT_AWAY_SECONDS, clock=time.monotonic)
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    job: Job | None = None
    while True:
        asked_at = time.monotonic()
        remaining = max(0.0, deadline - asked_at)
        # The first response comes at once.
        wait_seconds = 0.0 if job is None else min(progress.tick_seconds, remaining)
        try:
            before, job = job, client.job(job_id, wait_seconds=wait_seconds)
            retry.record_success()
            progress.show(job)
            if job.is_finished or remaining == 0:
                return job
            is_early = time.monotonic() - asked_at < wait_seconds / 2 or wait_seconds < 1
            is_unchanged = before is not None and before.status == job.status
            delay = _PAUSE_SECONDS if is_early and is_unchanged else 0.0
        except ClientError as error:
            delay = retry.delay_after(error)
            if remaining == 0:
                if job is None:
                    raise
                return job
            progress.show_outage(error)
        time.sleep(min(delay, max(0.0, deadline - time.monotonic())))


def _next_steps(job_id: str) -> str:
    return (
        f"The job goes on: `agentjobs jobs wait {job_id}` waits again, "
        f"`agentjobs jobs cancel {job_id}` cancels it."
    )

"""How the command line tells about a job."""

import httpx

from agentjobs.cli.jobs.text import details, progress
from agentjobs.jobs.model import JobView
from agentjobs.web.api.examples import response_example
from agentjobs_client import Client, Job

JOB = response_example(JobView)


def read_job(**fields: object) -> Job:
    document = {**JOB, **fields}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=document))
    with Client("http://test", "ajk_x", transport=transport) as client:
        return client.job("job_1")


def phase(name: str, attempt: int, elapsed_ms: int, **fields: object) -> dict[str, object]:
    started_at = "2026-01-31T09:30:00.000Z"
    view = {"phase": name, "attempt": attempt, "elapsed_ms": elapsed_ms, "started_at": started_at}
    return {**view, "ended_at": started_at, "interruption": None, **fields}


def test_the_phases_of_each_attempt_are_one_line() -> None:
    phases = [
        phase("queued", 1, 20),
        phase("agent", 1, 62_000, interruption="worker_lost"),
        phase("queued", 2, 3_000),
        phase("pull_request", 2, 900, ended_at=None),
    ]
    job = read_job(status="running", elapsed_ms=5_000, phases=phases)
    expected = "queued 20 ms, agent 1 min 2 s (worker_lost); queued 3 s, pull_request 900 ms"
    assert dict(details(job))["phases"] == expected
    assert progress(job) == "running, pull request, 5 s"


def test_a_job_of_an_older_service_has_no_phases() -> None:
    job = read_job(status="running", elapsed_ms=5_000, phases=[])
    assert "phases" not in dict(details(job))
    assert progress(job) == "running, 5 s"

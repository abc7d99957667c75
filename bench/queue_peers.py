"""Our queue beside pgqueuer, procrastinate and DBOS: empty jobs enqueued and drained on one durable
PostgreSQL, 16 at once in one process. The programs alternate.

Ours is the code of the service: the checks of a request, the claim, start and end of a job with
their events and deliveries. The peers are installed into an environment of their own.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import uvloop

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.authentication import Caller
from agentjobs.store.opening import open_database
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.settings import Settings
from bench.cluster import durable_cluster
from bench.report import verdict
from tests.support.jobs import JobHarness, job_harness
from tests.support.postgres import PostgresCluster

JOBS = 2_000
ROUNDS = 3
AT_ONCE = 16
ORGANIZATIONS = (1, 20, 500)
PEERS = {"pgqueuer": "pgqueuer", "procrastinate": "procrastinate", "dbos": "dbos"}
_REQUIREMENTS = ("pgqueuer==1.6.0", "procrastinate==3.10.0", "dbos==3.3.0", "uvloop", "asyncpg")
_DONE = Completed("http://example.com/pulls/1", 1, "2" * 40, draft=False)


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        python = _install(Path(directory))
        with durable_cluster() as cluster:
            rounds = [_round(cluster, python) for _ in range(ROUNDS)]
    names = rounds[0].keys()
    medians = {
        name: {
            figure: statistics.median(each[name][figure] for each in rounds)
            for figure in ("enqueue", "drain")
        }
        for name in names
    }
    best = max(medians[peer]["enqueue"] for peer in PEERS)
    return [
        {
            "queue": name,
            "enqueued/s": round(figures["enqueue"]),
            "of the best peer's": round(figures["enqueue"] / best, 2),
            "drained/s": round(figures["drain"]),
            "of pgqueuer's": round(figures["drain"] / medians["pgqueuer"]["drain"], 2),
            "of procrastinate's": round(figures["drain"] / medians["procrastinate"]["drain"], 2),
            "verdict": ""
            if name in PEERS
            else verdict(met=figures["drain"] >= medians["pgqueuer"]["drain"]),
        }
        for name, figures in medians.items()
    ]


def _install(directory: Path) -> Path:
    venv.create(directory / "peers", with_pip=True)
    python = directory / "peers/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", *_REQUIREMENTS], check=True)
    return python


def _round(cluster: PostgresCluster, python: Path) -> dict[str, dict[str, float]]:
    figures = {}
    for peer in PEERS:
        figures[peer] = _run_peer(cluster, python, peer)
    for organizations in ORGANIZATIONS:
        name = f"agentjobs, {organizations} organizations"
        figures[name] = uvloop.run(_run_ours(cluster, organizations))
    return figures


def _run_peer(cluster: PostgresCluster, python: Path, peer: str) -> dict[str, float]:
    program = Path(__file__).parent / "peers" / f"{peer}_queue.py"
    url = cluster.url(cluster.create_database())
    command = [str(python), str(program), url, str(JOBS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{peer} failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def _run_ours(cluster: PostgresCluster, organizations: int) -> dict[str, float]:
    db = await open_database(cluster.url(cluster.create_database()), migrate=True)
    try:
        harness = job_harness(db, Settings(data_dir="/nonexistent", queue_limit=JOBS))
        callers = [await harness.organization(f"org{n}") for n in range(organizations)]
        began = time.perf_counter()
        await asyncio.gather(*(_enqueue(harness, callers, first) for first in range(AT_ONCE)))
        enqueued = time.perf_counter()
        await _drain(harness)
        drained = time.perf_counter()
        return {"enqueue": JOBS / (enqueued - began), "drain": JOBS / (drained - enqueued)}
    finally:
        await db.close()


async def _enqueue(harness: JobHarness, callers: list[Caller], first: int) -> None:
    for number in range(first, JOBS, AT_ONCE):
        await harness.job(callers[number % len(callers)])


async def _drain(harness: JobHarness) -> None:
    claimer = Claimer(harness.context, "wrk_bench")
    running: set[asyncio.Task[None]] = set()
    left = JOBS
    while left:
        jobs = await claimer.claim(["fixer"], AT_ONCE - len(running))
        running |= {asyncio.create_task(_run(harness, job)) for job in jobs}
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        left -= len(done)


async def _run(harness: JobHarness, job: ClaimedJob) -> None:
    await start_job(harness.db, job, "1" * 40, "prompt")
    if not await finish_job(harness.db, job, _DONE):
        raise RuntimeError(f"the claim on {job.id} was lost")

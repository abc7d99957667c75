"""Runs one seed: a fleet, jobs and faults, the wait until all is settled, and the checks."""

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx

from agentjobs.store.opening import open_database
from tests.faults.checker import AcceptedJob, Checker, is_settled
from tests.faults.fleet import (
    POSTGRESQL_PROCESSES,
    REPO,
    SQLITE_PROCESSES,
    Fleet,
    restart,
    running_fleet,
)
from tests.faults.schedule import FAULT_SECONDS, PlannedJob, Schedule, plan
from tests.support.postgres import PostgresCluster
from tests.support.service import wait_until

SETTLE_SECONDS = 120.0
_REQUEST_SECONDS = 3.0
_PAUSE_SECONDS = 0.1
_ACCEPTED, _CONFLICT = 202, 409


@dataclass(frozen=True)
class Result:
    seed: int
    jobs: int
    faults: int
    requeued: int
    kept: int
    seconds: float
    violations: list[str]

    def line(self) -> str:
        outcome = "; ".join(self.violations) or "ok"
        return (
            f"seed {self.seed}: {self.jobs} jobs, {self.faults} faults,"
            f" {self.requeued} requeued, {self.kept} kept, {self.seconds:.1f} s: {outcome}"
        )


class Engine:
    """Fresh, migrated databases of one engine."""

    def __init__(self, name: str) -> None:
        self.cluster = PostgresCluster() if name == "postgresql" else None
        self._directory = Path(tempfile.mkdtemp(prefix="agentjobs-faults-"))
        self._template = f"sqlite:///{self._directory / 'template.db'}"
        if self.cluster is not None:
            restart(self.cluster)
            self._database = self.cluster.create_database()
            self._template = self.cluster.url(self._database)
        asyncio.run(_migrate(self._template))

    @contextlib.contextmanager
    def fresh(self, directory: Path) -> Iterator[str]:
        if self.cluster is None:
            shutil.copy(self._directory / "template.db", directory / "agentjobs.db")
            yield f"sqlite:///{directory / 'agentjobs.db'}"
            return
        name = self.cluster.create_database(self._database)
        yield self.cluster.url(name)
        self.cluster.drop_database(name)

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.remove()
        shutil.rmtree(self._directory)


def run_seed(engine: Engine, seed: int, fault_seconds: float = FAULT_SECONDS) -> Result:
    """The files of a run with violations are kept, and the result names their directory."""
    has_server = engine.cluster is not None
    processes = POSTGRESQL_PROCESSES if has_server else SQLITE_PROCESSES
    schedule = plan(seed, processes, fault_seconds, has_server=has_server)
    started = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix=f"agentjobs-faults-{seed}-"))
    with engine.fresh(directory) as url:
        checker, violations = _run(engine, schedule, directory, url)
    if violations:
        violations.append(f"files in {directory}")
    else:
        shutil.rmtree(directory)
    seconds = time.monotonic() - started
    return Result(
        seed,
        len(schedule.jobs),
        len(schedule.faults),
        checker.requeued,
        checker.kept,
        seconds,
        violations,
    )


def _run(
    engine: Engine, schedule: Schedule, directory: Path, url: str
) -> tuple[Checker, list[str]]:
    mark = f"faults-{secrets.token_hex(8)}"
    with running_fleet(directory, mark, url, engine.cluster) as fleet:
        with ThreadPoolExecutor(len(schedule.jobs)) as clients:
            began, is_over = time.monotonic(), threading.Event()
            jobs = [
                clients.submit(_create, fleet, job, began, is_over, Random(f"{schedule.seed}-{n}"))
                for n, job in enumerate(schedule.jobs)
            ]
            try:
                _inject(fleet, schedule, began)
                _settle(fleet, jobs, url)
            except AssertionError as error:
                is_over.set()
                accepted = [job.result() for job in jobs]
                checker = Checker(fleet, schedule, [job for job in accepted if job])
                return checker, [str(error), *asyncio.run(checker.check(url))]
            accepted = [job.result() for job in jobs]
        failures = fleet.stop()
        checker = Checker(fleet, schedule, [job for job in accepted if job])
        violations = [*failures, *asyncio.run(checker.check(url)), *checker.leftovers()]
        return checker, violations


def _inject(fleet: Fleet, schedule: Schedule, began: float) -> None:
    """Begin and end each fault when it is due; restart what ended meanwhile."""
    actions = sorted(
        [(each.at, fleet.begin, each) for each in schedule.faults]
        + [(each.at + each.seconds, fleet.end, each) for each in schedule.faults],
        key=lambda action: action[0],
    )
    for at, act, planned in actions:
        while time.monotonic() - began < at:
            fleet.restart_ended()
            time.sleep(0.02)  # the schedule's clock; nothing is expected after it
        act(planned)


def _settle(fleet: Fleet, jobs: list[Future[AcceptedJob | None]], url: str) -> None:
    def has_settled() -> bool:
        fleet.restart_ended()
        return all(job.done() for job in jobs) and asyncio.run(is_settled(url))

    wait_until(has_settled, "the fleet to settle", SETTLE_SECONDS)


def _create(
    fleet: Fleet, planned: PlannedJob, began: float, is_over: threading.Event, random: Random
) -> AcceptedJob | None:
    """Create a job as a careful client does: the same request again until it is answered."""
    is_over.wait(max(0.0, began + planned.at - time.monotonic()))
    headers = {
        "Authorization": f"Bearer {fleet.key}",
        "Idempotency-Key": f"{planned.at}-{random.random()}",
    }
    body = {"repo": REPO, "agent": planned.agent}
    with httpx.Client(headers=headers, timeout=_REQUEST_SECONDS) as client:

        def post(path: str, *expected: int) -> httpx.Response | None:
            while not is_over.is_set():
                with contextlib.suppress(httpx.TransportError):
                    response = client.post(random.choice(fleet.urls()) + path, json=body)
                    if response.status_code in expected:
                        return response
                is_over.wait(_PAUSE_SECONDS)
            return None

        response = post("/jobs", _ACCEPTED)
        if response is None:
            return None
        job_id = response.json()["job_id"]
        if planned.cancel_after is not None:
            is_over.wait(planned.cancel_after)
            post(f"/jobs/{job_id}/cancel", _ACCEPTED, _CONFLICT)
        return AcceptedJob(job_id, planned.agent, is_cancelled=planned.cancel_after is not None)


async def _migrate(url: str) -> None:
    db = await open_database(url, migrate=True)
    await db.close()

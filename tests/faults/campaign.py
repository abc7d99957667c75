"""Runs a schedule: a fleet, jobs and faults, the wait until all is settled, and the checks."""

import asyncio
import contextlib
import http.client
import json
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from random import Random

import httpx

import agentjobs
from tests.faults.checker import AcceptedJob, Checker, count_workers, is_settled
from tests.faults.deployment import REPO, Deployment, Engine
from tests.faults.fleet import Fleet, prepared_fleet
from tests.faults.injection import Injector
from tests.faults.machine import can_fill_disks, can_limit_processes
from tests.faults.phases import listening
from tests.faults.platform import SHOP
from tests.faults.schedule import FAULT_SECONDS, PlannedJob, Schedule, Topology, plan

START_SECONDS = 120.0
# A platform that refused a push is asked again after five minutes.
SETTLE_SECONDS = 420.0
_POLL_SECONDS = 0.5
# How much longer than faults at a time those at a phase may begin.
_PHASE_FACTOR = 2.5
_REQUEST_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Result:
    name: str
    topology: str
    jobs: int
    faults: Counter[str]
    takeovers: int
    kept: int
    seconds: float
    violations: list[str]
    directory: Path

    def line(self) -> str:
        outcome = "; ".join([*self.violations, f"files in {self.directory}"])
        outcome = outcome if self.violations else "ok"
        return (
            f"{self.name} ({self.topology}): {self.jobs} jobs, {self.faults.total()} faults,"
            f" {self.takeovers} takeovers, {self.kept} kept, {self.seconds:.1f} s: {outcome}"
        )


def run_seed(
    engine: Engine,
    seed: int,
    fault_seconds: float = FAULT_SECONDS,
    topology: Topology | None = None,
    source: Path | None = None,
) -> Result:
    schedule = plan(
        seed,
        engine.name,
        fault_seconds,
        topology=topology,
        can_fill_disks=can_fill_disks(),
        can_limit_processes=can_limit_processes(),
    )
    return run_schedule(engine, f"seed {seed}", schedule, fault_seconds, source)


def run_schedule(
    engine: Engine,
    name: str,
    schedule: Schedule,
    fault_seconds: float = FAULT_SECONDS,
    source: Path | None = None,
) -> Result:
    """The files of a run with violations are kept, and the result names their directory.

    `source` is another one than that of the tests, for the processes of the fleet.
    """
    prefix = f"agentjobs-faults-{engine.name}-{name.replace(' ', '-')}-"
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    started = time.monotonic()
    run = _Run(schedule, fault_seconds)
    try:
        with engine.deploy(schedule, directory, source) as deployment:
            run.play(deployment)
    except AssertionError as error:
        run.violations.append(str(error))
    if run.violations:
        (directory / "violations").write_text("\n".join(run.violations))
    else:
        shutil.rmtree(directory)
    return Result(
        name,
        schedule.topology,
        len(schedule.jobs),
        Counter(each.fault for each in run.fleet.disturbances) if run.fleet else Counter(),
        run.takeovers,
        run.kept,
        time.monotonic() - started,
        run.violations,
        directory,
    )


class _Run:
    def __init__(self, schedule: Schedule, fault_seconds: float) -> None:
        self._schedule = schedule
        self._fault_seconds = fault_seconds
        self.fleet: Fleet | None = None
        self.violations: list[str] = []
        self.takeovers = 0
        self.kept = 0

    def play(self, deployment: Deployment) -> None:
        mark = f"faults-{secrets.token_hex(8)}"
        with prepared_fleet(deployment, self._schedule, mark) as fleet:
            self.fleet = fleet
            injector = Injector(fleet, self._schedule)
            with listening(deployment.directory / "phases", injector.receive):
                fleet.start()
                _wait_until_ready(fleet, injector, self._schedule)
                accepted = self._run_jobs(fleet, injector)
                self.violations += fleet.stop()
                if self._schedule.cancels_jobs:
                    accepted = [replace(job, is_cancelled=True) for job in accepted]
                checker = Checker(fleet, self._schedule, accepted, injector.reports)
                self.violations += asyncio.run(checker.check(deployment.url))
                self.violations += checker.leftovers()
                self.takeovers, self.kept = checker.takeovers, checker.kept
            if self.violations:
                deployment.save_database()
                _save(deployment.directory, fleet, self._schedule, injector)

    def _run_jobs(self, fleet: Fleet, injector: Injector) -> list[AcceptedJob]:
        is_over = threading.Event()
        with (
            ThreadPoolExecutor(len(self._schedule.jobs)) as clients,
            httpx.Client(timeout=_REQUEST_SECONDS) as client,
        ):
            injector.open(self._fault_seconds * _PHASE_FACTOR)
            began = time.monotonic()
            jobs = [
                clients.submit(
                    _create,
                    client,
                    fleet,
                    job,
                    began,
                    is_over,
                    Random(f"{self._schedule.seed}-{n}"),
                )
                for n, job in enumerate(self._schedule.jobs)
            ]
            try:
                self._settle(fleet, injector, jobs)
            except AssertionError as error:
                self.violations.append(str(error))
            is_over.set()
            return [accepted for job in jobs if (accepted := job.result()) is not None]

    def _settle(
        self, fleet: Fleet, injector: Injector, jobs: list[Future[AcceptedJob | None]]
    ) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        polled_at = 0.0
        while time.monotonic() < deadline:
            injector.step()
            is_due = time.monotonic() > polled_at + _POLL_SECONDS
            # While a fault lasts, the database may be away.
            is_over = not injector.is_active and all(job.done() for job in jobs)
            if is_due and is_over and not injector.is_busy():
                if asyncio.run(is_settled(fleet.deployment.url)):
                    return
                polled_at = time.monotonic()
        raise AssertionError(f"the fleet did not settle within {SETTLE_SECONDS} s")


def _wait_until_ready(fleet: Fleet, injector: Injector, schedule: Schedule) -> None:
    """Also checks that every process has loaded this version of the service."""
    workers = sum(not name.startswith("serve") for name in schedule.processes)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        injector.step()
        time.sleep(_PAUSE_SECONDS)  # between two polls
        if _respond(fleet) and asyncio.run(count_workers(fleet.deployment.url)) >= workers:
            packages = {report.package for report in injector.reports}
            source = fleet.deployment.source or Path(agentjobs.__file__).parents[1]
            expected = str(source / "agentjobs" / "__init__.py")
            assert packages == {expected}, f"the processes have loaded {packages}"
            return
    raise AssertionError("the fleet is not ready")


def _respond(fleet: Fleet) -> bool:
    for url in fleet.urls():
        address = url.removeprefix("http://").removesuffix("/v1")
        connection = http.client.HTTPConnection(address, timeout=1)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status != HTTPStatus.OK:
                return False
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
    return True


def _create(
    client: httpx.Client,
    fleet: Fleet,
    planned: PlannedJob,
    began: float,
    is_over: threading.Event,
    random: Random,
) -> AcceptedJob | None:
    """Create a job as a careful client does: the same request again until it is answered."""
    is_over.wait(max(0.0, began + planned.at - time.monotonic()))
    headers = {
        "Authorization": f"Bearer {fleet.deployment.key}",
        "Idempotency-Key": f"{planned.at}-{random.random()}",
    }
    body = {"repo": SHOP if planned.is_on_platform else REPO, "agent": planned.agent}

    def post(path: str, *expected: int) -> httpx.Response | None:
        while not is_over.is_set():
            with contextlib.suppress(httpx.TransportError):
                url = random.choice(fleet.urls()) + path
                response = client.post(url, json=body, headers=headers)
                if response.status_code in expected:
                    return response
            is_over.wait(_PAUSE_SECONDS)
        return None

    response = post("/jobs", HTTPStatus.ACCEPTED)
    if response is None:
        return None
    job_id = response.json()["job_id"]
    if planned.cancel_after is not None:
        is_over.wait(planned.cancel_after)
        post(f"/jobs/{job_id}/cancel", HTTPStatus.ACCEPTED, HTTPStatus.CONFLICT)
    return AcceptedJob(
        job_id, planned.agent, planned.cancel_after is not None, planned.is_on_platform
    )


def _save(directory: Path, fleet: Fleet, schedule: Schedule, injector: Injector) -> None:
    """What happened, beside the database, the logs and the repositories."""
    (directory / "schedule.json").write_text(json.dumps(asdict(schedule), indent=1))
    lines = [json.dumps(asdict(each)) for each in injector.reports]
    (directory / "reports.jsonl").write_text("\n".join(lines))
    lines = [json.dumps(asdict(each)) for each in fleet.disturbances]
    (directory / "faults.jsonl").write_text("\n".join(lines))
    received = [
        {"job": each.job_id, "sequence": each.sequence, "event": each.event}
        for each in fleet.deployment.receiver.received
    ]
    (directory / "received.jsonl").write_text("\n".join(map(json.dumps, received)))

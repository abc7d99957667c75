"""Processes that are killed or stopped during their work: nothing is lost or done twice."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import sqlite_file
from tests.support.service import (
    Api,
    Service,
    StartService,
    StartWorker,
    connected,
    pull_requests,
    sample_repository,
    wait_until,
)


def agents_alive(seconds: str) -> bool:
    result = subprocess.run(["pgrep", "-f", f"sleep {seconds}$"], capture_output=True, check=False)
    return result.returncode == 0


def freeze(worker: Service, database_url: str) -> None:
    """Stop the worker while it does not hold SQLite's only write lock.

    On PostgreSQL it may be in a transaction; the server ends idle ones.
    """
    path = database_url.removeprefix("sqlite:///")
    with contextlib.ExitStack() as held:
        if path != database_url:
            held.enter_context(sqlite_file.locked(Path(path)))
        worker.signal(signal.SIGSTOP)
        wait_until(worker.is_stopped, "the worker to be stopped")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_another_worker_takes_over_from_a_killed_one_and_opens_one_pull_request(
    start: StartService, start_worker: StartWorker, tmp_path: Path, agent_seconds: str
) -> None:
    serve = start("serve")
    first = start_worker(serve, "first")
    api = connected(serve, tmp_path)
    job_id = api.create("acme/shop", "slow-once")
    api.wait_status(job_id, "running")
    second = start_worker(serve, "second")
    first.kill()
    wait_until(lambda: not agents_alive(agent_seconds), "the killed worker's agent to be gone")
    job = api.wait_status(job_id, "completed", "failed")
    assert job["status"] == "completed", job
    assert job["attempt"] == 2
    agents = [each for each in job["phases"] if each["phase"] == "agent"]
    assert [each["interruption"] for each in agents] == ["worker_lost", None]
    assert api.events(job_id) == [
        "job.queued",
        "job.started",
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]
    assert pull_requests(serve) == 1
    assert second.stop() == 0
    assert serve.stop() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_restarted_service_continues_the_job_of_the_killed_one(
    start: StartService, tmp_path: Path, agent_seconds: str
) -> None:
    service = start()
    api = connected(service, tmp_path)
    job_id = api.create("acme/shop", "slow-once")
    api.wait_status(job_id, "running")
    service.kill()
    wait_until(lambda: not agents_alive(agent_seconds), "the agent to be gone")
    restarted = start()
    api = restarted.client(restarted.key())
    job = api.wait_status(job_id, "completed", "failed")
    assert (job["status"], job["attempt"]) == ("completed", 2)
    assert pull_requests(restarted) == 1
    assert restarted.stop() == 0


def test_every_job_accepted_before_a_kill_exists_afterwards(
    start: StartService, tmp_path: Path
) -> None:
    service = start("serve", AGENTJOBS_RATE_LIMIT_PER_SECOND="0")
    api = connected(service, tmp_path)
    acknowledged: list[str] = []

    def post_until_killed() -> None:
        client = service.client(api.http.headers["Authorization"].removeprefix("Bearer "))
        try:
            while True:
                acknowledged.append(client.create("acme/shop", "sleepy"))
        except httpx.TransportError:
            return

    threads = [threading.Thread(target=post_until_killed) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acknowledged) > 50, "jobs to be accepted")
    service.kill()
    for thread in threads:
        thread.join()
    restarted = start("serve", AGENTJOBS_RATE_LIMIT_PER_SECOND="0")
    api = restarted.client(restarted.key())
    assert len(acknowledged) > 50
    for job_id in acknowledged:
        assert api.job(job_id)["status"] == "queued"
        assert api.events(job_id) == ["job.queued"]
    assert restarted.stop() == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_drained_worker_requeues_its_job_without_using_an_attempt(
    start: StartService, tmp_path: Path, agent_seconds: str
) -> None:
    service = start(AGENTJOBS_DRAIN_GRACE_SECONDS="0.2")
    api = connected(service, tmp_path)
    job_id = api.create("acme/shop", "slow-once")
    api.wait_status(job_id, "running")
    assert service.stop() == 0
    assert not agents_alive(agent_seconds)
    waiting = start("serve")
    job = waiting.client(waiting.key()).job(job_id)
    assert (job["status"], job["attempt"], job["queue_reason"]) == ("queued", 0, "no_worker")
    interruptions = [each["interruption"] for each in job["phases"]]
    assert interruptions == [None, None, "worker_stopped", None]
    assert waiting.stop() == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_that_is_stopping_is_draining_and_jobs_do_not_wait_for_it(
    start: StartService, start_worker: StartWorker, tmp_path: Path
) -> None:
    serve = start("serve")
    worker = start_worker(serve)
    api = connected(serve, tmp_path)
    running = api.create("acme/shop", "sleepy")
    api.wait_status(running, "running")
    worker.signal(signal.SIGTERM)

    def statuses() -> list[str]:
        listed = json.loads(serve.admin("workers", "list", "--json"))["workers"]
        return [each["status"] for each in listed]

    wait_until(lambda: statuses() == ["draining"], "the worker to be draining")
    waiting = api.create("acme/shop", "sleepy")
    wait_until(lambda: api.job(waiting)["queue_reason"] == "no_worker", "the reason it waits")
    api.http.post(f"/jobs/{running}/cancel")
    wait_until(lambda: statuses() == [], "the worker to end")
    assert worker.stop() == 0
    assert serve.stop() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_ctrl_c_drains_like_sigterm(start: StartService, tmp_path: Path) -> None:
    service = start(AGENTJOBS_DRAIN_GRACE_SECONDS="0.2")
    api = connected(service, tmp_path)
    job_id = api.create("acme/shop", "sleepy")
    api.wait_status(job_id, "running")
    assert service.press_ctrl_c() == 0
    waiting = start("serve")
    job = waiting.client(waiting.key()).job(job_id)
    assert (job["status"], job["error"]) == ("queued", None)
    assert waiting.stop() == 0


def test_a_worker_paused_beyond_its_lease_runs_the_job_again_and_only_once(
    start: StartService,
    start_worker: StartWorker,
    tmp_path: Path,
    agent_seconds: str,
    database_url: str,
) -> None:
    serve = start("serve")
    worker = start_worker(serve, AGENTJOBS_SLOTS="2")
    api = connected(serve, tmp_path)
    job_id = api.create("acme/shop", "slow-once")
    api.wait_status(job_id, "running")
    freeze(worker, database_url)
    api.wait_status(job_id, "queued")
    worker.signal(signal.SIGCONT)
    job = api.wait_status(job_id, "completed", "failed")
    assert (job["status"], job["attempt"]) == ("completed", 2)
    wait_until(lambda: not agents_alive(agent_seconds), "the first agent to be gone")
    both = [api.create("acme/shop", "sleepy") for _ in range(2)]
    for each in both:
        api.wait_status(each, "running")
    for each in both:
        api.http.post(f"/jobs/{each}/cancel")
        api.wait_status(each, "cancelled")
    assert worker.stop() == 0
    assert serve.stop() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_service_starts_with_a_damaged_repository(start: StartService, tmp_path: Path) -> None:
    service = start("serve")
    connected(service, tmp_path)
    assert service.stop() == 0
    (damaged,) = (service.data_dir / "git").glob("*.git")
    (damaged / "HEAD").unlink()
    restarted = start("serve")
    assert restarted.client(restarted.key()).http.get("/repos").status_code == 200
    assert restarted.stop() == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_running_job_may_finish_within_the_grace_period(
    start: StartService, tmp_path: Path
) -> None:
    service = start(AGENTJOBS_DRAIN_GRACE_SECONDS="30")
    api = connected(service, tmp_path)
    job_id = api.create("acme/shop", "sleepy", config_override={"timeout_seconds": 2})
    # A busy machine may notice only when it has ended.
    api.wait_status(job_id, "running", "failed")
    assert service.stop() == 0
    restarted = start("serve")
    job = restarted.client(restarted.key()).job(job_id)
    assert (job["status"], job["error"]["code"]) == ("failed", "timeout")
    assert restarted.stop() == 0


@pytest.fixture(scope="module")
def serve(shared_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("serve") / "data"
    environment = {"AGENTJOBS_DATABASE_URL": shared_database_url}
    service = Service(data_dir, environment, ("serve",)).start()
    yield service
    assert service.stop() == 0, service.log()


def test_a_key_revoked_on_the_command_line_is_refused(serve: Service) -> None:
    key = serve.key()
    api = serve.client(key)
    assert api.http.get("/agents").status_code == 200
    serve.admin("keys", "revoke", key)
    wait_until(lambda: api.http.get("/agents").status_code == 401, "the key to be refused")


def test_a_repository_connected_on_the_command_line_is_listed(
    serve: Service, tmp_path: Path
) -> None:
    api = serve.client(serve.key())
    assert api.http.get("/repos").json()["repos"] == []
    serve.connect(sample_repository(tmp_path / "source"), "acme/shop")
    wait_until(lambda: api.http.get("/repos").json()["repos"], "the repository to be listed")


def test_a_plan_set_on_the_command_line_applies(serve: Service) -> None:
    serve.admin("orgs", "create", "acme", "--plan", "free")
    api = serve.client(serve.key("--org", "acme"))
    assert not is_available(api, "premium")
    serve.admin("orgs", "set-plan", "acme", "enterprise")
    wait_until(lambda: is_available(api, "premium"), "the new plan to apply")


def is_available(api: Api, agent_id: str) -> bool:
    agents = {agent["id"]: agent for agent in api.http.get("/agents").json()["agents"]}
    return bool(agents[agent_id]["available"])

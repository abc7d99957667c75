"""Follow-ups on the pull request of an earlier job, over HTTP and with real git."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_crashes import freeze
from tests.support.service import Api, Service, git, pull_requests, sample_repository, worker_beside

AGENTS = '''
[[agents]]
id = "edit"
name = "Edit"
command = ["sh", "-c", "echo changed >> edited.txt"]

[[agents]]
id = "slow-once"
name = "Slow at its first attempt"
command = ["sh", "-c", """
echo slowly >> edited.txt
grep -q '"attempt": *1[,}]' "$AGENTJOBS_JOB" && exec sleep 600
exit 0
"""]

[[agents]]
id = "thoughtful"
name = "Thoughtful"
command = ["sh", "-c", "echo slowly >> edited.txt; exec sleep 2"]
'''
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
ENDED = ("completed", "failed")


@dataclass
class Setup:
    """A server and its worker; leases outlast a pause of the worker."""

    serve: Service
    worker: Service
    api: Api
    key: str
    url: str


def start(directory: Path, *command: str, **environment: str) -> Service:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "agentjobs.toml").write_text(AGENTS)
    return Service(directory, environment, command).start()


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    directory = tmp_path_factory.mktemp("follow-ups")
    url = f"sqlite:///{directory / 'agentjobs.db'}"
    environment = {"AGENTJOBS_DATABASE_URL": url, "AGENTJOBS_LEASE_SECONDS": "60"}
    serve = start(directory / "serve", "serve", **environment)
    (directory / "worker").mkdir()
    (directory / "worker" / "agentjobs.toml").write_text(AGENTS)
    worker = worker_beside(serve, directory / "worker", AGENTJOBS_LEASE_SECONDS="60").start()
    serve.connect(sample_repository(directory / "source"), "acme/shop")
    key = serve.key("--git-write")
    api = serve.client(key)
    api.wait_ready("acme/shop")
    yield Setup(serve, worker, api, key, url)
    assert (worker.stop(), serve.stop()) == (0, 0), worker.log()


@contextmanager
def paused_worker(setup: Setup) -> Iterator[None]:
    freeze(setup.worker, setup.url)
    try:
        yield
    finally:
        setup.worker.signal(signal.SIGCONT)


def follow_up_on(api: Api, job_id: str, prompt: str = "Now test it.", **fields: Any) -> str:
    response = api.http.post(f"/jobs/{job_id}/follow-ups", json={"prompt": prompt, **fields})
    assert response.status_code == 202, response.text
    follow_up: str = response.json()["job_id"]
    return follow_up


def branch_of(job: dict[str, Any]) -> str:
    return f"agentjobs/{job['agent']}/{job['job_id'][-12:]}"


def clone_of(service: Service, key: str, directory: Path) -> Path:
    host = service.root_url.removeprefix("http://")
    address = f"http://key:{key}@{host}/git/default/acme/shop.git"
    git(service.data_dir, "clone", "--quiet", address, str(directory))
    return directory


def jobs_that_committed(clone: Path, branch: str) -> list[str]:
    """The job IDs in the trailers of commits that main lacks, oldest first."""
    git(clone, "fetch", "--quiet")
    form = "--format=%(trailers:key=Job,valueonly)"
    return git(clone, "log", "--reverse", form, f"origin/main..origin/{branch}").split()


def test_a_follow_up_adds_a_commit_to_the_same_pull_request(
    service: Service, api: Api, key: str, tmp_path: Path
) -> None:
    first = api.finish("acme/shop", "edit", config_override={"prompt": "Fix the price."})
    pulls = pull_requests(service)
    follow_up = follow_up_on(api, first["job_id"])
    second = api.wait_status(follow_up, *ENDED)
    assert second["status"] == "completed", second
    assert (second["pr_url"], second["pr_number"]) == (first["pr_url"], first["pr_number"])
    assert pull_requests(service) == pulls
    clone = clone_of(service, key, tmp_path / "clone")
    branch = branch_of(first)
    assert jobs_that_committed(clone, branch) == [first["job_id"], follow_up]
    assert git(clone, "show", f"origin/{branch}:edited.txt") == "changed\nchanged\n"
    assert api.events(follow_up) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]
    prompt = api.http.get(f"/jobs/{follow_up}/prompt").json()["prompt"]
    assert f"follow-up on pull request #{first['pr_number']}" in prompt
    assert "The pull request's title: Edit a file" in prompt
    assert prompt.index("Now test it.") < prompt.index("Fix the price.")


def test_a_follow_up_without_changes_fails_and_keeps_the_branch(
    service: Service, api: Api, key: str, tmp_path: Path
) -> None:
    first = api.finish("acme/shop", "edit")
    second = api.wait_status(follow_up_on(api, first["job_id"], agent="idle"), *ENDED)
    assert second["error"]["code"] == "no_changes"
    clone = clone_of(service, key, tmp_path / "clone")
    assert jobs_that_committed(clone, branch_of(first)) == [first["job_id"]]


def test_a_refused_follow_up_says_why(service: Service, api: Api) -> None:
    job = api.finish("acme/shop", "edit")
    path, body = f"/jobs/{job['job_id']}/follow-ups", {"prompt": "Now test it."}

    def refusal(client: Api, **sent: Any) -> tuple[int, str]:
        response = client.http.post(path, **{"json": body, **sent})
        return response.status_code, response.json()["error"]["code"]

    assert refusal(service.client(service.key("--scope", "read"))) == (403, "insufficient_scope")
    service.admin("orgs", "create", "others")
    assert refusal(service.client(service.key("--org", "others"))) == (404, "job_not_found")
    assert refusal(api, json={}) == (422, "validation_failed")
    service.admin("pulls", "close", "acme/shop", str(job["pr_number"]))
    assert refusal(api) == (409, "pull_not_open")


def test_a_service_killed_during_a_follow_up_adds_exactly_one_commit(
    tmp_path: Path,
) -> None:
    leases = {"AGENTJOBS_LEASE_SECONDS": "2", "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5"}
    service = start(tmp_path / "data", "up", **leases)
    service.connect(sample_repository(tmp_path / "source"), "acme/shop")
    key = service.key("--git-write")
    api = service.client(key)
    api.wait_ready("acme/shop")
    first = api.finish("acme/shop", "edit")
    follow_up = follow_up_on(api, first["job_id"], agent="slow-once")
    api.wait_status(follow_up, "running")
    service.kill()
    restarted = start(tmp_path / "data", "up", **leases)
    api = restarted.client(key)
    second = api.wait_status(follow_up, *ENDED)
    # The branch had only the earlier job's commit, so nothing was adopted.
    assert "adopted" not in api.log(follow_up)
    assert (second["status"], second["attempt"]) == ("completed", 2)
    assert second["pr_number"] == first["pr_number"]
    clone = clone_of(restarted, key, tmp_path / "clone")
    branch = branch_of(first)
    assert jobs_that_committed(clone, branch) == [first["job_id"], follow_up]
    assert git(clone, "show", f"origin/{branch}:edited.txt") == "changed\nslowly\n"
    assert restarted.stop() == 0


def commit(clone: Path, message: str) -> None:
    with (clone / "edited.txt").open("a") as file:
        file.write("more\n")
    git(clone, *IDENTITY, "commit", "--quiet", "--all", "--message", message)


def test_a_branch_that_moved_during_the_run_is_not_overwritten(
    setup: Setup, tmp_path: Path
) -> None:
    api = setup.api
    first = api.finish("acme/shop", "edit")
    clone = clone_of(setup.serve, setup.key, tmp_path / "clone")
    git(clone, "checkout", "--quiet", branch_of(first))
    follow_up = follow_up_on(api, first["job_id"], agent="thoughtful")
    api.wait_status(follow_up, "running")
    with paused_worker(setup):
        commit(clone, "By a person")
        git(clone, "push", "--quiet", "origin", "HEAD")
    second = api.wait_status(follow_up, *ENDED)
    assert second["error"]["code"] == "push_rejected", second
    assert "moved while the agent worked" in second["error"]["message"]
    assert jobs_that_committed(clone, branch_of(first)) == [first["job_id"]]
    # The next follow-up continues from the moved branch.
    third = api.wait_status(follow_up_on(api, first["job_id"]), *ENDED)
    assert third["status"] == "completed", third

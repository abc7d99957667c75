"""Attacks on availability: each runs beside an ordinary tenant, who must not notice it."""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.git_bombs import commit_tree_bomb, delta_bomb_pack
from tests.support.neighbour import SharedService, shared_service
from tests.support.service import wait_until
from tests.support.workspace import ENVIRONMENT, run_git

_LONG_PATHS = """
descriptor = os.open(".", os.O_RDONLY)
for _ in range(14):
    os.mkdir("d" * 240, dir_fd=descriptor)
    descriptor = os.open("d" * 240, os.O_RDONLY, dir_fd=descriptor)
for number in range({files}):
    os.close(os.open(f"f{{number}}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
"""
_BUSY_PROCESSES = """
for _ in range(200):
    if os.fork() == 0:
        deadline = time.monotonic() + {seconds}
        while time.monotonic() < deadline:
            pass
        os._exit(0)
change()
"""
OUTPUT = "head -c 20000000 /dev/zero | tr '\\0' 'x'; yes line | head -c 20000000; exit 1"
CONFIGURATION = "x = " + "[" * 100_000


def long_paths(files: int) -> str:
    """The attack as a program: empty files below 14 directories with names of 240 characters."""
    return _LONG_PATHS.format(files=files)


def busy_processes(seconds: float) -> str:
    """The attack as a program: 200 processes that compute."""
    return _BUSY_PROCESSES.format(seconds=seconds)


@pytest.fixture(scope="module")
def shared(
    attacked_sandbox: AttackedSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedService]:
    environment = {
        **attacked_sandbox.variables,
        "AGENTJOBS_LIMIT_CHECKOUT_FILES": "10000",
        "AGENTJOBS_LIMIT_GIT_MEMORY_MIB": "256",
        "AGENTJOBS_LIMIT_GIT_CPU_SECONDS": "20",
        "AGENTJOBS_INDEX_TIMEOUT_SECONDS": "20",
    }
    with shared_service(tmp_path_factory.mktemp("shared"), environment) as opened:
        yield opened


@pytest.fixture
def clone(shared: SharedService, tmp_path: Path) -> Path:
    """The attacker's repository, ready to push to."""
    run_git(tmp_path, "clone", "-q", shared.git_url("evil/app"), "clone")
    return tmp_path / "clone"


def test_a_tree_of_long_paths(shared: SharedService) -> None:
    with shared.neighbour():
        job = shared.attack(python=long_paths(files=3_000))
    assert job["error"]["code"] == "unsafe_change"


def test_busy_processes(shared: SharedService) -> None:
    with shared.neighbour():
        job = shared.attack(python=busy_processes(seconds=0.5))
    assert job["status"] == "completed", job["error"]


def test_a_flood_of_output(shared: SharedService) -> None:
    with shared.neighbour():
        assert shared.attack(shell=OUTPUT)["error"]["code"] == "agent_failed"


def test_pushes_that_expand_to_gigabytes(shared: SharedService) -> None:
    pack = delta_bomb_pack(objects=20, object_bytes=400 * 1024**2)
    line = f"{'0' * 40} {'a' * 40} refs/heads/bomb\0report-status".encode()
    body = b"%04x%s0000%s" % (len(line) + 4, line, pack)

    def push(_: int) -> httpx.Response:
        return httpx.post(
            f"{shared.git_url('evil/app')}/git-receive-pack",
            headers={"Content-Type": "application/x-git-receive-pack-request"},
            content=body,
            timeout=300,
        )

    with shared.neighbour(), ThreadPoolExecutor(8) as executor:
        responses = list(executor.map(push, range(8)))
    assert all(b"ng refs/heads/bomb" in response.content for response in responses)


def test_a_commit_of_a_billion_files(shared: SharedService, clone: Path) -> None:
    with shared.neighbour():
        head = run_git(clone, "rev-parse", "HEAD")
        commit_tree_bomb(clone, levels=5, width=32)
        job = shared.attacker.finish("evil/app", "ordinary")
        run_git(clone, "push", "-q", "--force", "origin", f"{head}:refs/heads/main")
    assert job["error"]["code"] == "repo_unavailable"
    assert "10000 files and directories" in job["error"]["message"]


def test_a_configuration_that_is_hard_to_parse(shared: SharedService, clone: Path) -> None:
    with shared.neighbour():
        (clone / ".agentjobs.toml").write_text(CONFIGURATION)
        run_git(clone, "add", "-A")
        run_git(clone, "commit", "-qm", "nested")
        run_git(clone, "push", "-q", "origin", "HEAD:refs/heads/nested")
        override = {"base_branch": "nested"}
        job = shared.attacker.finish("evil/app", "ordinary", config_override=override)
    assert job["error"]["code"] == "invalid_configuration"


def test_requests_that_are_hard_to_parse(shared: SharedService) -> None:
    bodies = [
        b"[" * 60_000,
        b'{"repo": "' + b"\\u0041" * 10_000 + b'", "agent": "x"}',
        json.dumps(
            {"repo": "evil/app", "agent": "hostile", "config_override": {"a": [[]] * 10_000}}
        ),
        b'{"repo": 1' + b"0" * 60_000 + b"}",
    ]
    with shared.neighbour(), ThreadPoolExecutor(8) as executor:
        for _ in range(20):
            responses = executor.map(
                lambda body: shared.attacker.http.post(
                    "/jobs", content=body, headers={"Content-Type": "application/json"}
                ),
                bodies,
            )
            assert {response.status_code for response in responses} <= {400, 422, 429}


def test_a_full_queue(shared: SharedService) -> None:
    with shared.neighbour():
        job_ids = []
        for _ in range(100):
            body = {"repo": "evil/app", "agent": "hostile", "config_override": {"shell": "exit 1"}}
            response = shared.attacker.http.post("/jobs", json=body)
            if response.status_code == 202:
                job_ids.append(response.json()["job_id"])
        for job_id in job_ids[1:]:
            shared.attacker.http.post(f"/jobs/{job_id}/cancel")
    final = ("completed", "failed", "cancelled")
    wait_until(lambda: shared.attacker.job(job_ids[0])["status"] in final, "the first job's end")


def test_many_clones_at_once(shared: SharedService, tmp_path: Path) -> None:
    def clone(number: int) -> int:
        command = ["git", "clone", "-q", shared.git_url("evil/app"), str(tmp_path / str(number))]
        return subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False).returncode

    with shared.neighbour(), ThreadPoolExecutor(12) as executor:
        assert set(executor.map(clone, range(36))) == {0}

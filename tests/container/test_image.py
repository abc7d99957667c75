"""The image: reproducible, without root, and with a sandbox where the runtime allows it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.container.harness import (
    SANDBOX_OPTIONS,
    attempt,
    build,
    create_repository,
    exit_code,
    in_container,
    run,
    run_job,
    wait_for,
)
from tests.support.paths import VERSION


@contextmanager
def container(image: str, *options: str) -> Iterator[str]:
    name = run("podman", "run", "--detach", *options, image)
    try:
        yield name
    finally:
        attempt("podman", "rm", "--force", "--volumes", name)


def test_two_builds_of_a_commit_give_the_same_image(image: str) -> None:
    first = run("podman", "image", "inspect", image, "--format", "{{.Id}}")
    assert build("localhost/agentjobs:again") == first


def test_version_and_labels_name_the_build(image: str) -> None:
    commit = run("git", "rev-parse", "HEAD")
    output = run("podman", "run", "--rm", image, "--version")
    assert output.startswith(f"agentjobs {VERSION} (commit {commit[:12]}")
    config = json.loads(run("podman", "image", "inspect", image))[0]["Config"]
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert config["Labels"]["org.opencontainers.image.revision"] == commit
    assert config["StopSignal"] == "SIGTERM"
    assert list(config["Volumes"]) == ["/var/lib/agentjobs"]


@pytest.fixture(scope="module")
def agent_image(image: str) -> str:
    """After `image`, which prepares the storage."""
    name = "localhost/agentjobs-agent:test"
    build(name, "agent")
    return name


def test_the_image_of_agents_is_reproducible_and_has_what_pods_need(agent_image: str) -> None:
    details = json.loads(run("podman", "image", "inspect", agent_image))[0]
    assert build("localhost/agentjobs-agent:again", "agent") == details["Id"]
    config = details["Config"]
    assert config["User"] == "10001:10001"
    script = (
        "id -u; for name in git python3 skopeo agentjobs-supervisor bwrap umoci psql; do"
        " command -v $name || true; done"
    )
    output = run("podman", "run", "--rm", agent_image, "sh", "-c", script).split()
    supervisor = "/usr/local/bin/agentjobs-supervisor"
    assert output == ["10001", "/usr/bin/git", "/usr/bin/python3", "/usr/bin/skopeo", supervisor]


def test_built_in_agents_run_in_the_image_of_agents_without_the_service(agent_image: str) -> None:
    script = """\
cd /tmp; printf 'import os\\n' > shop.py; run='/opt/agentjobs/bin/python -I -m'
$run agentjobs_worker.agents.builtin.lint_fixer; $run agentjobs_dependencies.fixes
/opt/agentjobs/bin/uv --version
ls /opt/agentjobs/lib/python3*/site-packages"""
    output = run("podman", "run", "--rm", agent_image, "sh", "-c", script)
    assert "violations fixed: 1\n" in output
    # It has all of its modules, and no job.
    assert "the job file cannot be used: " in output
    assert "\nuv 0." in output
    assert output.split()[-2:] == ["agentjobs_dependencies", "agentjobs_worker"]


def test_a_container_runs_a_job_without_root_and_ends_on_sigterm(image: str) -> None:
    with container(image, *SANDBOX_OPTIONS) as name:
        wait_for(lambda: attempt("podman", "exec", name, "probe").returncode == 0, "readiness")
        create_repository(name)
        pull_url = run_job(name, "http://127.0.0.1:8080")
        assert "/pulls/1" in pull_url
        status = in_container(name, "cat", "/proc/1/status")
        assert "\nUid:\t10001\t10001" in status
        assert "\nCapEff:\t0000000000000000" in status
        # The service is the first process, which inherits the orphans of all others.
        states = in_container(name, "sh", "-c", "cat /proc/[0-9]*/stat")
        assert [line for line in states.splitlines() if ") Z " in line] == []
        run("podman", "stop", "--time", "60", name)
        assert exit_code(name) == 0


def test_doctor_names_the_options_that_the_runtime_needs(image: str) -> None:
    refused = attempt("podman", "run", "--rm", image, "doctor")
    assert refused.returncode == 1
    assert " ".join(SANDBOX_OPTIONS) in refused.stdout
    assert "bubblewrap cannot create a sandbox here" in refused.stdout
    accepted = attempt("podman", "run", "--rm", *SANDBOX_OPTIONS, image, "doctor")
    assert accepted.returncode == 0, accepted.stdout


def test_probe_fails_while_nothing_listens(image: str) -> None:
    process = attempt("podman", "run", "--rm", "--entrypoint", "probe", image)
    assert (process.returncode, process.stderr[:10]) == (1, "not ready:")

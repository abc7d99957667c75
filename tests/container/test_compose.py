"""compose.yaml, run by Docker Compose: a database, two APIs, two workers and a proxy."""

import json
import secrets
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.harness import (
    PACKAGING,
    STORAGE,
    attempt,
    build_other_images,
    create_repository,
    environment,
    exit_code,
    health_checks,
    in_container,
    run,
    run_job,
    wait_for,
)

SERVICES = ["api-1", "api-2", "database", "proxy", "worker-1", "worker-2"]
COMPOSE = STORAGE / "docker-compose"
URL = "http://agents.test"


@pytest.fixture(scope="module")
def compose_program(image: str) -> Path:
    build_other_images(
        programs="localhost/programs",
        postgres="docker.io/library/postgres:17",
        caddy="docker.io/library/caddy:2",
    )
    container = run("podman", "create", "localhost/programs", "true")
    run("podman", "cp", f"{container}:/usr/libexec/docker/cli-plugins/docker-compose", COMPOSE)
    run("podman", "rm", container)
    return COMPOSE


@pytest.fixture
def project(tmp_path: Path, image: str) -> Path:
    for name in ("compose.yaml", "Caddyfile"):
        shutil.copy(PACKAGING / name, tmp_path)
    (tmp_path / ".env").write_text(
        "DOMAIN=agents.test\nSCHEME=http\nHTTP_PORT=18083\nHTTPS_PORT=18446\n"
        "UNMASK_PROC=unmask=ALL\n"
        f"POSTGRES_PASSWORD={secrets.token_hex(32)}\n"
        f"ENCRYPTION_KEY={b64encode(secrets.token_bytes(32)).decode()}\nIMAGE={image}\n"
    )
    return tmp_path


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[str]:
    """Podman's implementation of Docker's API, for Docker Compose."""
    path = tmp_path / "podman.sock"
    command = ["podman", "system", "service", "--time=0", f"unix://{path}"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as process:
        wait_for(path.exists, "podman's service")
        yield f"unix://{path}"
        process.terminate()


@pytest.mark.parametrize("name", ["DOMAIN", "POSTGRES_PASSWORD", "ENCRYPTION_KEY"])
def test_a_missing_variable_is_named_with_what_to_set(
    compose_program: Path, project: Path, name: str
) -> None:
    env = project / ".env"
    env.write_text(
        "".join(
            line
            for line in env.read_text().splitlines(keepends=True)
            if not line.startswith(f"{name}=")
        )
    )
    process = attempt(compose_program, "config", "--quiet", cwd=project)
    assert process.returncode != 0
    assert f"required variable {name} is missing a value: set it in .env to " in process.stderr


def test_a_job_runs_on_all_services_and_survives_the_loss_of_an_api(
    compose_program: Path, project: Path, socket: str
) -> None:
    def compose(*arguments: str) -> str:
        return run(compose_program, *arguments, cwd=project, DOCKER_HOST=socket)

    def is_served() -> bool:
        probe = (
            "import urllib.request; urllib.request.urlopen('http://agents.test/v1/openapi.json')"
        )
        command = ("podman", "exec", "agentjobs-worker-1-1", "python3", "-c", probe)
        return attempt(*command).returncode == 0

    assert sorted(compose("config", "--services").split()) == SERVICES
    try:
        with health_checks():
            compose("up", "--detach", "--wait", "--pull", "never", "--no-build")
        create_repository("agentjobs-api-1-1")
        assert run_job("agentjobs-worker-1-1", URL) == f"{URL}/default/acme/shop/pulls/1"
        workers = in_container("agentjobs-api-2-1", "agentjobs", "workers", "list", "--json")
        statuses = [worker["status"] for worker in json.loads(workers)["workers"]]
        assert statuses == ["ready", "ready"]
        run("podman", "kill", "agentjobs-api-1-1")
        wait_for(is_served, "an answer of the other API")
        compose("stop")
        names = [f"agentjobs-{name}-1" for name in SERVICES if name != "api-1"]
        assert {name: exit_code(name) for name in names} == dict.fromkeys(names, 0)
    finally:
        attempt(compose_program, "down", "--volumes", cwd=project, DOCKER_HOST=socket)

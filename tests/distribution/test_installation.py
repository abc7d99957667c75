"""The packages, installed as docs/installation.md says, in places that know no checkout."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.install import pip_settings, uv_settings
from tests.support.installed_program import (
    InstalledService,
    create_environment,
    install,
    run,
    wheel_of,
)
from tests.support.paths import PROJECT
from tests.support.service import connected, pull_requests


@pytest.fixture(scope="module")
def index() -> dict[str, str]:
    """uv does not read where pip gets packages from."""
    return uv_settings(pip_settings([sys.executable, "-m", "pip"]))


@pytest.fixture(scope="module")
def programs(
    packages: Path, index: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An environment with the locked dependencies and both wheels."""
    programs = create_environment(tmp_path_factory.mktemp("installed") / "environment")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in index.items():
            patch.setenv(name, value)
        install(programs, "--require-hashes", "-r", PROJECT / "requirements.lock")
    wheels = [wheel_of(packages, name) for name in ("agentjobs", "agentjobs_client")]
    install(programs, "--offline", "--no-deps", *wheels)
    run(sys.executable, "-m", "uv", "pip", "check", "--python", programs / "python", cwd=programs)
    return programs


@pytest.fixture
def service(programs: Path, tmp_path: Path) -> Iterator[InstalledService]:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin"}
    program = programs / "agentjobs"
    service = InstalledService(tmp_path / "data", environment, program=program).start()
    yield service
    service.stop()


def test_a_job_of_an_installed_service_becomes_a_pull_request(
    service: InstalledService, tmp_path: Path
) -> None:
    api = connected(service, tmp_path)
    job = api.finish("acme/shop", "lint-fixer")
    assert job["status"] == "completed", api.log(job["job_id"])
    assert job["pr_url"].startswith(f"{service.root_url}/default/acme/shop/pulls/")
    assert pull_requests(service) == 1
    assert "PROBLEM" not in service.admin("doctor")
    assert " (commit " in service.log()


def test_uvx_runs_the_program_without_an_installation(
    packages: Path, index: dict[str, str], tmp_path: Path
) -> None:
    uvx = (sys.executable, "-m", "uv", "tool", "run", "--find-links", packages)
    wheel = wheel_of(packages, "agentjobs")
    output = run(
        *(*uvx, "--from", wheel, "agentjobs", "--version"),
        cwd=tmp_path,
        **{**os.environ, **index, "UV_TOOL_DIR": str(tmp_path / "tools")},
    )
    assert output.startswith("agentjobs ")
    assert "(commit " in output


def test_pipx_installs_the_program(packages: Path, index: dict[str, str], tmp_path: Path) -> None:
    environment = {
        **os.environ,
        **index,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
    }
    pipx = (sys.executable, "-m", "uv", "tool", "run", "pipx", "install")
    pip_arguments = f"--pip-args=--find-links={packages}"
    run(*pipx, pip_arguments, wheel_of(packages, "agentjobs"), cwd=tmp_path, **environment)
    assert "(commit " in run(tmp_path / "bin" / "agentjobs", "--version", cwd=tmp_path)


def test_an_sdist_can_be_installed(packages: Path, index: dict[str, str], tmp_path: Path) -> None:
    programs = create_environment(tmp_path / "environment")
    (sdist,) = packages.glob("agentjobs-[0-9]*.tar.gz")
    (client,) = packages.glob("agentjobs_client-[0-9]*.tar.gz")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in index.items():
            patch.setenv(name, value)
        install(programs, sdist, client)
    assert "(commit " in run(programs / "agentjobs", "--version", cwd=tmp_path)


def test_the_npm_package_can_be_imported(packages: Path, tmp_path: Path) -> None:
    (package,) = packages.glob("*.tgz")
    run("npm", "install", "--no-audit", "--no-fund", "--offline", str(package), cwd=tmp_path)
    program = (
        'import("@agentjobs/client").then((client) => console.log(typeof client.verifyWebhook))'
    )
    assert run("node", "-e", program, cwd=tmp_path) == "function\n"

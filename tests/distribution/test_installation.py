"""The packages, installed as docs/installation.md says, in places that know no checkout."""

import os
import re
import shlex
import shutil
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
)
from tests.support.paths import PROJECT, VERSION
from tests.support.service import connected, pull_requests

PYTHON = shlex.quote(sys.executable)


def documented(command: str) -> str:
    """The code block of docs/installation.md that has this command, for the current version."""
    page = (PROJECT / "docs" / "installation.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if command in block]
    return block.replace("0.3.0", VERSION)


@pytest.fixture(scope="module")
def index() -> dict[str, str]:
    """uv does not read where pip gets packages from."""
    return uv_settings(pip_settings([sys.executable, "-m", "pip"]))


@pytest.fixture(scope="module")
def programs(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the locked dependencies and all wheels."""
    root = tmp_path_factory.mktemp("installed")
    shutil.copy(PROJECT / "requirements.lock", packages / f"agentjobs-{VERSION}-requirements.txt")
    script = documented("pip install --require-hashes").replace("/opt/agentjobs", str(root))
    output = run("sh", "-ec", script.replace("python3 -m venv", f"{PYTHON} -m venv"), cwd=packages)
    assert output.splitlines()[-1].startswith(f"agentjobs {VERSION} (commit ")
    programs = root / ".venv" / "bin"
    run(programs / "pip", "check", cwd=root)
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


@pytest.mark.parametrize("tool", ["pipx", "uvx"])
def test_pipx_and_uvx_run_the_program(
    packages: Path, index: dict[str, str], tmp_path: Path, tool: str
) -> None:
    (line,) = [line for line in documented("pipx").splitlines() if line.startswith(tool)]
    script = line.replace("uvx", f"{PYTHON} -m uv tool run").replace("agentjobs up", "agentjobs")
    if tool == "uvx":
        script += " --version"
    else:
        script = f"{PYTHON} -m uv tool run {script}; {tmp_path}/agentjobs --version"
    directories = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path)}
    environment = {**os.environ, **index, **directories}
    output = run("sh", "-ec", script, cwd=packages, **environment)
    assert output.splitlines()[-1].startswith(f"agentjobs {VERSION} (commit ")


def test_the_sdists_can_be_installed(packages: Path, index: dict[str, str], tmp_path: Path) -> None:
    programs = create_environment(tmp_path / "environment")
    sdists = sorted(packages.glob("agentjobs*.tar.gz"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in index.items():
            patch.setenv(name, value)
        install(programs, *sdists)
    assert "(commit " in run(programs / "agentjobs", "--version", cwd=tmp_path)


def test_the_npm_package_can_be_imported(packages: Path, tmp_path: Path) -> None:
    (package,) = packages.glob("*.tgz")
    run("npm", "install", "--no-audit", "--no-fund", "--offline", str(package), cwd=tmp_path)
    program = (
        'import("@agentjobs/client").then((client) => console.log(typeof client.verifyWebhook))'
    )
    assert run("node", "-e", program, cwd=tmp_path) == "function\n"

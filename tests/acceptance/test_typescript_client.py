"""The TypeScript client: built, packed and installed in an empty project, against the service."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from scripts.reference.api import TYPESCRIPT_CLIENT
from scripts.reference.examples import typescript
from tests.support.documented_api import OPERATIONS
from tests.support.documented_blocks import blocks_in
from tests.support.paths import PROJECT
from tests.support.scripted_server import http, scripted_servers, server_tls
from tests.support.service import Service, StartService, connected

CLIENT = PROJECT / "clients/typescript"
PROGRAMS = PROJECT / "tests/npm"
TYPESCRIPT = CLIENT / "node_modules/.bin/tsc"
# As strict as a project can be.
CHECKS = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes")
DOCUMENTED = [block for block in blocks_in("ts") if "fromEnvironment" in block.text]


def run(directory: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def access(service: Service, key: str) -> dict[str, str]:
    return {"AGENTJOBS_URL": service.base_url, "AGENTJOBS_API_KEY": key}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Access to a separate service, because the tests merge a pull request."""
    directory = tmp_path_factory.mktemp("service")
    service = Service(directory / "data").start()
    connected(service, directory)
    yield access(service, service.key("--pulls"))
    assert service.stop() == 0, service.log()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the client, built and packed."""
    root = tmp_path_factory.mktemp("typescript")
    copy = root / "clients/typescript"
    shutil.copytree(
        CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "generated")
    )
    (copy / "node_modules").symlink_to(CLIENT / "node_modules")
    (root / "docs").mkdir()
    shutil.copy(PROJECT / "docs/openapi.json", root / "docs")
    shutil.copy(PROJECT / "LICENSE", root)
    run(copy, "npm", "pack", "--loglevel=error")
    return copy


@pytest.fixture(scope="module")
def project(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty project with only the packed client."""
    directory = tmp_path_factory.mktemp("project")
    (directory / "package.json").write_text('{"private": true, "type": "module"}')
    (archive,) = package.glob("*.tgz")
    options = ("--offline", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
    run(directory, "npm", "install", *options, archive)
    return directory


def test_the_package_has_no_dependencies_and_no_sources(project: Path) -> None:
    modules = project / "node_modules"
    assert [path.name for path in modules.iterdir() if path.name[0] != "."] == ["@agentjobs"]
    (installed,) = (modules / "@agentjobs").iterdir()
    assert {path.name for path in installed.iterdir()} == {
        "LICENSE",
        "README.md",
        "dist",
        "package.json",
    }
    names = {path.name for path in (installed / "dist").rglob("*") if path.is_file()}
    assert {"index.js", "index.d.ts"} <= names
    assert all(name.endswith((".js", ".d.ts")) for name in names)


@pytest.fixture(scope="module")
def compiled(project: Path) -> Path:
    """The project with programs that the compiler has accepted, among them the documentation's."""
    shutil.copy(PROGRAMS / "client_consumer.ts", project)
    for number, block in enumerate(DOCUMENTED):
        (project / f"documented_{number}.ts").write_text(f"{block.text}\nexport {{}};\n")
    examples = (f"{{\n{typescript(operation)}\n}}" for operation in OPERATIONS.values())
    (project / "examples.ts").write_text("\n".join([TYPESCRIPT_CLIENT, *examples]))
    (project / "node.d.ts").write_text(
        "declare const process: { stdout: { write(text: string): void } };"
    )
    library = ("--target", "es2022", "--lib", "es2022,dom,dom.iterable")
    files = sorted(path.name for path in project.glob("*.ts"))
    run(project, TYPESCRIPT, *files, "--module", "nodenext", *library, *CHECKS)
    return project


def test_a_program_with_the_packed_client_type_checks_and_runs(
    compiled: Path, environment: dict[str, str]
) -> None:
    output = run(compiled, "node", "client_consumer.js", **environment)
    assert output.splitlines()[0].startswith("validation_failed")
    assert output.splitlines()[1].startswith("completed ")


def test_the_programs_of_the_documentation_type_check_and_the_readmes_runs(
    compiled: Path, environment: dict[str, str]
) -> None:
    assert DOCUMENTED[0].page == "README.md"
    assert "ruff" in run(compiled, "node", "documented_0.js", **environment)


def test_the_clients_own_tests_pass_against_the_service(
    package: Path, environment: dict[str, str]
) -> None:
    run(package, "npm", "test", **environment)


def test_node_trusts_an_authority_that_its_variable_names(project: Path, tmp_path: Path) -> None:
    """As the client's README says."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    program = (
        'import { AgentJobs, collect } from "@agentjobs/client";'
        "console.log((await collect(AgentJobs.fromEnvironment().agents.list())).length);"
    )
    with scripted_servers() as listen:
        port = listen(http('{"agents": []}'), tls=server_tls(authority))
        access = {"AGENTJOBS_URL": f"https://127.0.0.1:{port}", "AGENTJOBS_API_KEY": "ajk_x"}
        trusted = {"NODE_EXTRA_CA_CERTS": str(tmp_path / "ca.pem")}
        node = ("node", "--input-type=module", "--eval", program)
        assert run(project, *node, **access, **trusted) == "0\n"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_watching_and_following_survive_a_killed_service(
    project: Path, start: StartService, tmp_path: Path
) -> None:
    service = start()
    api = connected(service, tmp_path)
    key = service.key()
    job_id = api.create("acme/shop", "slow-once")
    shutil.copy(PROGRAMS / "client_follower.mjs", project)
    with subprocess.Popen(
        ["node", "client_follower.mjs", job_id],
        cwd=project,
        env={**os.environ, **access(service, key)},
        stdout=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "received\n"
        service.kill()
        service.port = urlsplit(service.base_url).port or 0
        service.start()
        *_, last = follower.stdout.read().splitlines()
    assert follower.returncode == 0
    result = json.loads(last)
    assert result["statuses"][-1] == "completed"
    assert result["log"] == service.client(key).log(job_id)
    assert service.stop() == 0

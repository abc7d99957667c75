"""The agent `cve-fixer` with the real uv and the real Poetry against the real index."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from agentjobs.advisories.registries.hosts import hosts_for
from agentjobs.agents.builtin_agents import python_files
from agentjobs.agents.cve_fixer_support import FixerTools, find_fixer_tools
from agentjobs.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.protocol import SandboxPort
from agentjobs.settings import Settings
from tests.support.pypi_project import (
    AGENTS_BIN,
    ENTRY,
    POETRY,
    REQUESTS,
    TRAP,
    Project,
)
from tests.support.sandbox import SandboxHarness, unused_uid_base


@pytest.fixture(scope="module")
def tools() -> FixerTools:
    return find_fixer_tools(f"{AGENTS_BIN}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def project(tmp_path: Path, tools: FixerTools) -> Project:
    return Project(tmp_path, tools)


def test_a_plain_pin_changes_one_line_and_is_checked(project: Project) -> None:
    project.write(requirements__txt="# ours\nRequests[socks]==2.25.0  # http\n-e .\nidna==2.10\n")
    project.write(setup__py=TRAP)
    project.fix("requirements.txt")
    assert project.changed_lines("requirements.txt") == [
        "-Requests[socks]==2.25.0  # http",
        "+Requests[socks]==2.31.0  # http",
    ]
    assert "uv pip compile" in project.output
    assert "could not be checked" not in project.report.read_text()


UV = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1"
requires-python = ">=3.{minor}"
dependencies = ["requests{requests}"]
"""


def test_uv_updates_a_transitive_package_and_nothing_else(project: Project) -> None:
    # The last has no wheel: only a build or the lock file has its requirements.
    project.write(
        pyproject__toml=UV.format(minor=9, requests='==2.29.0", "urllib3==1.26.5", "docopt==0.6.2')
    )
    project.uv("lock")
    loose = UV.format(minor=9, requests='>=2.25", "docopt')
    project.write(pyproject__toml=loose)
    project.uv("lock")
    # As in a project with a dynamic version.
    project.write(pyproject__toml=loose.replace('version = "1"', 'dynamic = ["version"]'))
    lock = project.tree / "uv.lock"
    lock.write_text(lock.read_text().replace('name = "demo"\nversion = "1"\n', 'name = "demo"\n'))
    project.write(setup__py=TRAP)
    project.fix("uv.lock", **{"package": "urllib3", "from": "1.26.5", "to": "1.26.17"})
    assert not project.changed_lines("pyproject.toml")
    changed = project.changed_lines("uv.lock")
    assert changed[:2] == ['-version = "1.26.5"', '+version = "1.26.17"']
    assert len(changed) == 6
    assert all("urllib3" in line for line in changed[2:])


async def test_every_installed_tool_starts_inside_the_sandbox(
    tmp_path: Path, tools: FixerTools
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    assert {"uv", "poetry"} <= tools.commands.keys()
    for name, command in tools.commands.items():
        option = "version" if name == "go" else "--version"
        report = await harness.run(*command, option, read_only=(*python_files(), *tools.read_only))
        assert report.exit_code == 0, report.last_lines


async def test_both_lock_files_are_fixed_in_the_sandbox_through_the_proxy(
    project: Project, tmp_path: Path
) -> None:
    pinned = POETRY.format(python="3.9,<4", requests='>=2.25,<2.26)", "urllib3 (==1.26.5')
    project.write(pyproject__toml=pinned)
    project.uv("lock")
    project.poetry("lock")
    # The job installs this version, because the worker has another one.
    lock = project.tree / "poetry.lock"
    lock.write_text(re.sub(r"(by Poetry) [\d.]+", r"\1 2.1.4", lock.read_text()))
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    for path in project.tree.iterdir():
        (harness.workspace / path.name).write_bytes(path.read_bytes())
    hand_over(harness)
    fix = {**REQUESTS, "package": "urllib3", "from": "1.26.5", "to": "1.26.17"}
    fixes = [{**fix, "manifest": name} for name in ("uv.lock", "poetry.lock")]
    (harness.run_dir / "job.json").write_text(json.dumps({"fixes": fixes}))
    refused: list[str] = []
    hosts = hosts_for(Settings(data_dir=str(tmp_path)), "PyPI")
    egress = Egress(hosts, AllowList.parse(addresses_of(hosts)), refused.append)
    report = await harness.run(
        *(sys.executable, "-I", "-u", str(ENTRY)),
        read_only=(*python_files(), *project.tools.read_only),
        environment={**certificates(), **project.tools.environment},
        hosts=egress.hosts,
        ports=tuple(
            SandboxPort(number=port, protocol=protocol, environment=proxy_at(port, egress))
            for port, protocol in egress.ports.items()
        ),
    )
    await egress.close()
    assert refused == []
    assert report.last_lines.endswith("fixed: 2, not fixed: 0"), report.last_lines
    for name in ("uv.lock", "poetry.lock"):
        packages = tomllib.loads((harness.workspace / name).read_text())["package"]
        versions = {package["name"]: package["version"] for package in packages}
        assert versions["urllib3"] == "1.26.17"
    assert "by Poetry 2.1.4 " in (harness.workspace / "poetry.lock").read_text()
    # The second fix sees the first one's change to their common requirement.
    assert "urllib3 (==1.26.17)" in (harness.workspace / "pyproject.toml").read_text()


def hand_over(harness: SandboxHarness) -> None:
    owner = harness.sandbox.owner_uid(0)
    if owner is not None:
        subprocess.run(["chown", "-hR", f"{owner}:{owner}", harness.workspace], check=True)


def proxy_at(port: int, egress: Egress) -> Mapping[str, str]:
    return egress.environment if port == PROXY_PORT else {}


def addresses_of(hosts: Iterable[str]) -> list[str]:
    """Allow only the index's address, which may be a private mirror."""
    names = (host.rpartition(":")[0] for host in hosts)
    result = {entry[4][0] for name in names for entry in socket.getaddrinfo(name, 443)}
    return sorted(map(str, result))


def certificates() -> dict[str, str]:
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    return {name: os.environ[name] for name in names if name in os.environ}

"""The agent `cve-fixer` in its sandbox, which reaches the index through the proxy only."""

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

from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.registry_hosts import hosts_for
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.agents.cve_fixer_support import FixerTools, find_fixer_tools
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxPort
from tests.support.pypi_project import (
    AGENTS_BIN,
    ENTRY,
    POETRY,
    REQUESTS,
    Project,
)
from tests.support.sandbox import SandboxHarness, unused_uid_base


@pytest.fixture(scope="module")
def tools() -> FixerTools:
    return find_fixer_tools(f"{AGENTS_BIN}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def project(tmp_path: Path, tools: FixerTools) -> Project:
    return Project(tmp_path, tools)


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
    # On a busy machine, a client may send nothing in time; it connects again.
    assert [each for each in refused if "no TLS handshake within" not in each] == []
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

"""The agent `cve-fixer` with the real uv and the real Poetry against the real index."""

import os
from pathlib import Path

import pytest

from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.agents.cve_fixer_support import FixerTools, find_fixer_tools
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from tests.support.pypi_project import (
    AGENTS_BIN,
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

"""The agent `cve-fixer` with the real npm and pnpm against the real registry.

Every project here is hostile: whatever of it could run leaves a file behind.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_worker.agents.cve_fixer_support import FixerTools, find_fixer_tools
from tests.support.npm_project import (
    LODASH,
    MINIMIST,
    NPM_TESTS_BIN,
    Project,
    locked,
    package_lock,
    without_hashes,
)


@pytest.fixture(scope="module")
def tools() -> FixerTools:
    return find_fixer_tools(f"{NPM_TESTS_BIN}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def project(tmp_path: Path, tools: FixerTools) -> Iterator[Project]:
    project = Project(tmp_path, tools)
    yield project
    assert not project.trace.exists(), "code of the repository ran"


def test_a_range_that_allows_the_version_is_not_changed(project: Project) -> None:
    asked = {"lodash": "^4.17.15", "async": "2.6.3"}
    project.manifest({"dependencies": asked})
    project.write(
        "package-lock.json",
        package_lock(
            {
                "": {"name": "app", "dependencies": asked},
                "node_modules/async": locked("async", "2.6.3", dependencies={"lodash": "^4.17.14"}),
                "node_modules/lodash": locked("lodash", "4.17.15"),
            }
        ),
    )
    output = project.fix("package-lock.json", LODASH)
    assert output.endswith("fixed: 1, not fixed: 0\n"), output
    assert project.changed("package.json") == []
    assert without_hashes(project.changed("package-lock.json")) == [
        '-"version": "4.17.15",',
        '-"resolved": "https://packages.example/npm/lodash/-/lodash-4.17.15.tgz",',
        '+"version": "4.17.21",',
        '+"resolved": "https://packages.example/npm/lodash/-/lodash-4.17.21.tgz",',
    ]


PNPM_LOCK = """\
lockfileVersion: '9.0'

settings:
  autoInstallPeers: true
  excludeLinksFromLockfile: false

importers:

  .: {}

  packages/a:
    dependencies:
      lodash:
        specifier: ^4.17.15
        version: 4.17.15
      mkdirp:
        specifier: 0.5.1
        version: 0.5.1

packages:

  lodash@4.17.15:
    resolution: {integrity: sha512-AAAA}

  minimist@0.0.8:
    resolution: {integrity: sha512-AAAA}

  mkdirp@0.5.1:
    resolution: {integrity: sha512-AAAA}
    hasBin: true

snapshots:

  lodash@4.17.15: {}

  minimist@0.0.8: {}

  mkdirp@0.5.1:
    dependencies:
      minimist: 0.0.8
"""


WORKSPACE = """\
# ours
packages: ["packages/*"]

pnpmfile: .pnpmfile.cjs
registry: http://127.0.0.1:9/
"""


def write_pnpm_project(project: Project) -> None:
    project.manifest({})
    asked = {"lodash": "^4.17.15", "mkdirp": "0.5.1"}
    project.manifest({"name": "a", "dependencies": asked}, "packages/a/package.json")
    project.write("pnpm-workspace.yaml", WORKSPACE)
    project.write("pnpm-lock.yaml", PNPM_LOCK)


def test_pnpm_updates_allowed_versions_and_overrides_others(project: Project) -> None:
    write_pnpm_project(project)
    output = project.fix("pnpm-lock.yaml", LODASH, MINIMIST)
    assert output.endswith("fixed: 2, not fixed: 0\n"), output
    assert project.changed("package.json") == project.changed("packages/a/package.json") == []
    override = ["+", "+overrides:", "+mkdirp>minimist: 0.2.4"]
    assert project.changed("pnpm-workspace.yaml") == override
    rows = [row for row in project.changed("pnpm-lock.yaml") if "resolution" not in row]
    assert sorted(rows) == sorted(
        [
            *override,
            *("-version: 4.17.15", "+version: 4.17.21"),
            *("-lodash@4.17.15:", "+lodash@4.17.21:", "-minimist@0.0.8:", "+minimist@0.2.4:"),
            *("-lodash@4.17.15: {}", "+lodash@4.17.21: {}"),
            *("-minimist@0.0.8: {}", "+minimist@0.2.4: {}"),
            *("-minimist: 0.0.8", "+minimist: 0.2.4"),
        ]
    )
    assert "remove the override `mkdirp>minimist`" in project.report.read_text()

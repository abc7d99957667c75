"""The agent `cve-fixer` with the real npm, pnpm and yarn against the real registry.

Every project here is hostile: whatever of it could run leaves a file behind.
"""

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs.agents.builtin_agents import CVE_FIXER_DIRECTORY
from agentjobs.agents.cve_fixer_support import FixerTools, find_fixer_tools
from agentjobs.sandbox.protocol import DRAFT_FILE
from agentjobs.settings.registries import public_registry
from tests.support.paths import PROJECT

REGISTRY = public_registry("npm")
NPM_TESTS_BIN = PROJECT / ".npm-tests" / "node_modules" / ".bin"
ENTRY = CVE_FIXER_DIRECTORY / "__main__.py"
LODASH = ("lodash", "4.17.15", "4.17.21")
MINIMIST = ("minimist", "0.0.8", "0.2.4")
NPMRC = """\
registry=http://127.0.0.1:9/
@scope:registry=http://127.0.0.1:9/
ignore-scripts=false
script-shell={trap}
node-options=--require={trap}
git={trap}
cafile=/nonexistent
prefix=/nonexistent
package-lock=false
pnpmfile={trap}
"""
YARNRC = """\
yarnPath: {trap}
plugins:
  - path: {trap}
    spec: "@yarnpkg/plugin-trap"
npmRegistryServer: "http://127.0.0.1:9"
compressionLevel: 0
"""


@pytest.fixture(scope="module")
def tools() -> FixerTools:
    return find_fixer_tools(f"{NPM_TESTS_BIN}{os.pathsep}{os.environ['PATH']}")


class Project:
    def __init__(self, directory: Path, tools: FixerTools) -> None:
        self.tree = directory / "tree"
        self.tree.mkdir()
        self.tools = tools
        self.report = directory / "report.md"
        self.trace = directory / "ran"
        self.before: dict[str, str] = {}
        self._set_traps(directory / "trap.cjs")

    def _set_traps(self, trap: Path) -> None:
        trap.write_text(f"#!/usr/bin/env node\nrequire('fs').writeFileSync('{self.trace}', '')\n")
        trap.chmod(0o755)
        self.write(".npmrc", NPMRC.format(trap=trap))
        self.write(".pnpmfile.cjs", trap.read_text())
        self.write(".yarnrc", f'yarn-path "{trap}"\nregistry "http://127.0.0.1:9/"\n')
        self.write(".yarnrc.yml", YARNRC.format(trap=trap))

    def write(self, name: str, content: str) -> None:
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(content)

    def manifest(
        self, content: dict[str, Any], path: str = "package.json", indent: int = 2
    ) -> None:
        hostile = {
            "scripts": dict.fromkeys(("preinstall", "prepare"), f"touch {self.trace}"),
            "packageManager": "pnpm@11.0.0",
            "engines": {"node": "1", "npm": "1"},
        }
        self.write(path, json.dumps({"name": "app", **hostile, **content}, indent=indent) + "\n")

    def fix(self, manifest: str, *fixes: tuple[str, str, str]) -> str:
        files = (path for path in self.tree.rglob("*") if path.is_file())
        self.before = {path.relative_to(self.tree).as_posix(): path.read_text() for path in files}
        job = self.report.with_name("job.json")
        job.write_text(json.dumps(job_of(manifest, *fixes)))
        completed = subprocess.run(
            (sys.executable, "-I", "-u", str(ENTRY)),
            cwd=self.tree,
            env={
                **os.environ,
                **self.tools.environment,
                "AGENTJOBS_JOB": str(job),
                "AGENTJOBS_REPORT": str(self.report),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return completed.stdout + completed.stderr

    def changed(self, name: str) -> list[str]:
        old, new = self.before.get(name, ""), (self.tree / name).read_text()
        rows = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=0))[2:]
        return [row[0] + row[1:].strip() for row in rows if row[0] in "+-"]


def job_of(manifest: str, *fixes: tuple[str, str, str]) -> dict[str, Any]:
    common = {"ecosystem": "npm", "manifest": manifest, "registry": REGISTRY}
    return {
        "fixes": [{**common, "package": name, "from": old, "to": new} for name, old, new in fixes]
    }


@pytest.fixture
def project(tmp_path: Path, tools: FixerTools) -> Iterator[Project]:
    project = Project(tmp_path, tools)
    yield project
    assert not project.trace.exists(), "code of the repository ran"


def locked(name: str, version: str, **more: Any) -> dict[str, Any]:
    address = f"https://packages.example/npm/{name}/-/{name}-{version}.tgz"
    return {"version": version, "resolved": address, "integrity": "sha512-AAAA", **more}


def package_lock(packages: dict[str, Any], lock_format: int = 3) -> str:
    lock = {"name": "app", "lockfileVersion": lock_format, "requires": True, "packages": packages}
    return json.dumps(lock, indent="\t")


def without_hashes(rows: list[str]) -> list[str]:
    return [row for row in rows if "integrity" not in row]


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


def test_a_lock_file_of_npm_6_gets_an_exact_version_and_an_override(project: Project) -> None:
    project.manifest({"dependencies": {"lodash": "4.17.15", "mkdirp": "0.5.1"}}, indent=4)
    old = {
        "lodash": locked("lodash", "4.17.15"),
        "minimist": locked("minimist", "0.0.8"),
        "mkdirp": locked("mkdirp", "0.5.1", requires={"minimist": "0.0.8"}),
    }
    text = {"name": "app", "lockfileVersion": 1, "requires": True, "dependencies": old}
    project.write("package-lock.json", json.dumps(text, indent=2) + "\n")
    output = project.fix("package-lock.json", LODASH, MINIMIST, ("unknown", "1.0.0", "1.0.1"))
    assert output.endswith("fixed: 2, not fixed: 1\n"), output
    assert project.changed("package.json") == [
        *('-"lodash": "4.17.15",', '+"lodash": "4.17.21",', "+},"),
        *('+"overrides": {', '+"mkdirp": {', '+"minimist": "0.2.4"', "+}"),
    ]
    rows = without_hashes(project.changed("package-lock.json"))
    assert [row for row in rows if "resolved" not in row] == [
        *('-"version": "4.17.15",', '+"version": "4.17.21",'),
        *('-"version": "0.0.8",', '+"version": "0.2.4",'),
        *('-"minimist": "0.0.8"', '+"minimist": "0.2.4"'),
    ]
    report = project.report.read_text()
    assert "`mkdirp` excludes `minimist` 0.2.4, so `overrides` in `package.json`" in report
    assert "remove the entry from `overrides`" in report


def test_only_copies_at_that_version_and_their_requirements_change(project: Project) -> None:
    project.manifest({"workspaces": ["packages/*"]})
    packages: dict[str, Any] = {"": {"name": "app", "workspaces": ["packages/*"]}}
    for name, spec in (("a", "^4.17.15"), ("b", "3.10.0")):
        asked = {"lodash": spec}
        project.manifest({"name": name, "dependencies": asked}, f"packages/{name}/package.json")
        packages[f"node_modules/{name}"] = {"resolved": f"packages/{name}", "link": True}
        packages[f"packages/{name}"] = {"name": name, "dependencies": asked}
    packages["node_modules/lodash"] = locked("lodash", "4.17.15")
    packages["packages/b/node_modules/lodash"] = locked("lodash", "3.10.0")
    project.write("npm-shrinkwrap.json", package_lock(packages))
    output = project.fix("npm-shrinkwrap.json", ("lodash", "3.10.0", "3.10.1"))
    assert output.endswith("fixed: 1, not fixed: 0\n"), output
    assert project.changed("package.json") == project.changed("packages/a/package.json") == []
    assert project.changed("packages/b/package.json") == [
        '-"lodash": "3.10.0"',
        '+"lodash": "3.10.1"',
    ]
    after = json.loads((project.tree / "npm-shrinkwrap.json").read_text())["packages"]
    assert after["packages/b/node_modules/lodash"]["version"] == "3.10.1"
    assert after["node_modules/lodash"] == packages["node_modules/lodash"]


def test_an_unpublished_version_changes_nothing(project: Project) -> None:
    project.manifest({"dependencies": {"lodash": "^4.17.15"}})
    entry = {"node_modules/lodash": locked("lodash", "4.17.15")}
    root = {"name": "app", "dependencies": {"lodash": "^4.17.15"}}
    project.write("package-lock.json", package_lock({"": root, **entry}))
    output = project.fix("package-lock.json", ("lodash", "4.17.15", "4.17.9999"))
    assert "nothing could be fixed: npm install failed" in output
    assert "ETARGET" in project.report.read_text()
    assert project.changed("package.json") == project.changed("package-lock.json") == []


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
# Releases that write this format fetch packages, so the checksum is the real one.
LODASH_CHECKSUM = (
    "sha512-8xOcRHvCjnocdS5cpwXQXVzmmh5e5+saE2QGoeQmbKmRS6J3VQpp"
    "POIt0MnmE+4xlZoumy0GPG0D0MVIQbNA1A=="
)
PNPM_LOCK_6 = f"""\
lockfileVersion: '6.0'

settings:
  autoInstallPeers: true
  excludeLinksFromLockfile: false

dependencies:
  lodash:
    specifier: ^4.17.15
    version: 4.17.15

packages:

  /lodash@4.17.15:
    resolution: {{integrity: {LODASH_CHECKSUM}}}
    dev: false
"""
YARN_LOCK_1 = """\
# THIS IS AN AUTOGENERATED FILE. DO NOT EDIT THIS FILE DIRECTLY.
# yarn lockfile v1


lodash@^4.17.15:
  version "4.17.15"
  resolved "https://packages.example/npm/lodash/-/lodash-4.17.15.tgz#abc"
  integrity sha512-AAAA

minimist@0.0.8:
  version "0.0.8"
  resolved "https://packages.example/npm/minimist/-/minimist-0.0.8.tgz#abc"
  integrity sha512-AAAA

mkdirp@0.5.1:
  version "0.5.1"
  resolved "https://packages.example/npm/mkdirp/-/mkdirp-0.5.1.tgz#abc"
  integrity sha512-AAAA
  dependencies:
    minimist "0.0.8"
"""
YARN_LOCK_6 = """\
# This file is generated by running "yarn install" inside your project.
# Manual changes might be lost - proceed with caution!

__metadata:
  version: 6
  cacheKey: 8

"app@workspace:.":
  version: 0.0.0-use.local
  resolution: "app@workspace:."
  dependencies:
    lodash: ^4.17.15
    mkdirp: 0.5.1
  languageName: unknown
  linkType: soft

"lodash@npm:^4.17.15":
  version: 4.17.15
  resolution: "lodash@npm:4.17.15"
  checksum: aaaa
  languageName: node
  linkType: hard

"minimist@npm:0.0.8":
  version: 0.0.8
  resolution: "minimist@npm:0.0.8"
  checksum: aaaa
  languageName: node
  linkType: hard

"mkdirp@npm:0.5.1":
  version: 0.5.1
  resolution: "mkdirp@npm:0.5.1"
  dependencies:
    minimist: 0.0.8
  bin:
    mkdirp: bin/cmd.js
  checksum: aaaa
  languageName: node
  linkType: hard
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


def test_an_older_format_of_pnpm_is_kept(project: Project) -> None:
    project.manifest({"dependencies": {"lodash": "^4.17.15"}})
    project.write("pnpm-lock.yaml", PNPM_LOCK_6)
    output = project.fix("pnpm-lock.yaml", LODASH)
    assert output.endswith("fixed: 1, not fixed: 0\n"), output
    assert project.changed("package.json") == []
    rows = [row for row in project.changed("pnpm-lock.yaml") if "resolution" not in row]
    assert rows == [
        *("-version: 4.17.15", "+version: 4.17.21"),
        *("-/lodash@4.17.15:", "+/lodash@4.17.21:"),
    ]
    assert "hooks" in project.report.with_name(DRAFT_FILE).read_text()


@pytest.mark.parametrize("lock", [YARN_LOCK_1, YARN_LOCK_6], ids=["1", "6"])
def test_yarn_updates_allowed_versions_and_overrides_others(project: Project, lock: str) -> None:
    project.manifest({"dependencies": {"lodash": "^4.17.15", "mkdirp": "0.5.1"}})
    project.write("yarn.lock", lock)
    output = project.fix("yarn.lock", LODASH, MINIMIST)
    assert output.endswith("fixed: 2, not fixed: 0\n"), output
    changed = [row for row in project.changed("package.json") if row != "+},"]
    assert changed[:1] == ['+"resolutions": {']
    assert changed[1].endswith('mkdirp/minimist": "0.2.4"')
    after = (project.tree / "yarn.lock").read_text()
    assert "4.17.15" not in after.replace("^4.17.15", "")
    assert "version: 4.17.21" in after or 'version "4.17.21"' in after
    assert "remove the resolution" in project.report.read_text()

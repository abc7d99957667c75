"""A hostile project of npm, pnpm or yarn on which tests run the agent `cve-fixer`.

Whatever of it could run leaves a file behind.
"""

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentjobs_runtime.settings.registries import public_registry
from agentjobs_worker.agents.builtin_agents import CVE_FIXER_DIRECTORY
from agentjobs_worker.agents.cve_fixer_support import FixerTools
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


def locked(name: str, version: str, **more: Any) -> dict[str, Any]:
    address = f"https://packages.example/npm/{name}/-/{name}-{version}.tgz"
    return {"version": version, "resolved": address, "integrity": "sha512-AAAA", **more}


def package_lock(packages: dict[str, Any], lock_format: int = 3) -> str:
    lock = {"name": "app", "lockfileVersion": lock_format, "requires": True, "packages": packages}
    return json.dumps(lock, indent="\t")


def without_hashes(rows: list[str]) -> list[str]:
    return [row for row in rows if "integrity" not in row]

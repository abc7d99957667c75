"""A Python project on which tests run the agent `cve-fixer`."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from agentjobs_runtime.sandboxes.directories import DRAFT_FILE
from agentjobs_runtime.settings.registries import public_registry
from agentjobs_worker.agents.builtin_agents import CVE_FIXER_DIRECTORY
from agentjobs_worker.agents.cve_fixer_support import FixerTools
from tests.support.paths import PROJECT

REGISTRY = public_registry("pypi")


AGENTS_BIN = PROJECT / ".venv-agents" / "bin"


ENTRY = CVE_FIXER_DIRECTORY / "__main__.py"


HASHES = (
    "sha256:58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f",
    "sha256:942c5a758f98d790eaed1a29cb6eefc7ffb0d1cf7af05c3d2791656dbd6ad1e1",
)


REQUESTS = {
    "ecosystem": "PyPI",
    "package": "requests",
    "from": "2.25.0",
    "to": "2.31.0",
    "hashes": HASHES,
    "registry": REGISTRY,
}


TRAP = "raise SystemExit('code of the repository ran')\n"


class Project:
    def __init__(self, directory: Path, tools: FixerTools) -> None:
        self.tree = directory / "tree"
        self.tree.mkdir()
        self.tools = tools
        self.report = directory / "report.md"
        self.output = ""
        self.before: dict[str, str] = {}

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.tree / name.replace("__", ".")).write_text(content)

    def run(self, *command: str, **environment: str) -> str:
        completed = subprocess.run(
            command,
            cwd=self.tree,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    def uv(self, *arguments: str) -> None:
        self.run(*self.tools.commands["uv"], *arguments, "--default-index", REGISTRY, "-q")

    def poetry(self, *arguments: str) -> None:
        """Uses the fixer's launcher, which sets the index without changing files."""
        python = self.tools.commands["poetry"][0]
        self.run(
            *(
                python,
                "-I",
                str(ENTRY.with_name("python") / "poetry_without_builds.py"),
                "-n",
                *arguments,
            ),
            AGENTJOBS_FIXER_REGISTRY=REGISTRY,
            AGENTJOBS_FIXER_PACKAGE="",
        )
        lock = self.tree / "poetry.lock"
        source = r"\n\[package\.source\]\n(?:.+\n){3}"
        lock.write_text(re.sub(source, "", lock.read_text()))

    def fix(self, manifest: str, *together: list[str], **changes: Any) -> None:
        self.before = {path.name: path.read_text() for path in self.tree.iterdir()}
        job = self.report.with_name("job.json")
        fixes = [{**REQUESTS, "manifest": manifest, **changes}]
        job.write_text(json.dumps({"fixes": fixes, "installed_together": together}))
        self.report.with_name(DRAFT_FILE).unlink(missing_ok=True)
        self.output = self.run(
            *(sys.executable, "-I", "-u", str(ENTRY)),
            AGENTJOBS_JOB=str(job),
            AGENTJOBS_REPORT=str(self.report),
            **self.tools.environment,
        )

    @property
    def draft_reasons(self) -> str:
        path = self.report.with_name(DRAFT_FILE)
        return path.read_text() if path.exists() else ""

    def changed_lines(self, name: str) -> list[str]:
        """As git shows them, without context."""
        before = self.report.with_name("before")
        before.write_text(self.before[name])
        completed = subprocess.run(
            ["git", "diff", "--no-index", "-U0", str(before), str(self.tree / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        return re.findall(r"^(?:-(?!--)|\+(?!\+\+)).*", completed.stdout, re.MULTILINE)

    def locked(self, name: str) -> dict[str, str]:
        packages = tomllib.loads((self.tree / name).read_text())["package"]
        return {package["name"]: package["version"] for package in packages}


POETRY = """\
[project]
name = "demo"
version = "1"
requires-python = ">={python}"
dependencies = ["requests ({requests})"]  # http

[tool.poetry]
package-mode = false
"""

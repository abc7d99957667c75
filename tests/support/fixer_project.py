"""Runs the agent `cve-fixer` on a project, outside of a sandbox."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agentjobs_runtime.sandboxes.directories import DRAFT_FILE
from agentjobs_runtime.settings.registries import ECOSYSTEMS, public_registry
from agentjobs_worker.agents.builtin_agents import CVE_FIXER_DIRECTORY
from agentjobs_worker.agents.cve_fixer_support import TOOLS_VARIABLE, find_fixer_tools
from tests.support.vulnerable_projects import NODE_TOOLS, POETRY

# With the tools that `make` installs for tests.
TOOLS_PATH = os.pathsep.join([str(POETRY), str(NODE_TOOLS), os.environ["PATH"]])

_ENTRY = CVE_FIXER_DIRECTORY / "__main__.py"
# The network of the test's machine.
_PASSED_SUFFIXES = ("_proxy", "_cert_file", "_ca_bundle", "_ca_certs")


@dataclass(frozen=True)
class FixerResult:
    """`last_line` of the output says why nothing could be fixed."""

    exit_code: int
    last_line: str
    report: str
    draft_reasons: str


def run_fixer(
    tree: Path, job: Mapping[str, Any], directory: Path, with_tools: bool = True
) -> FixerResult:
    """`job` has the entries of the job file; it and the report are written to the directory."""
    directory.mkdir(exist_ok=True)
    job_file, report = directory / "job.json", directory / "report.md"
    draft = report.with_name(DRAFT_FILE)
    for path in (report, draft):
        path.unlink(missing_ok=True)
    job_file.write_bytes(msgspec.json.encode(job))
    tools = find_fixer_tools(TOOLS_PATH).commands if with_tools else {}
    passed = {
        name: value for name, value in os.environ.items() if name.lower().endswith(_PASSED_SUFFIXES)
    }
    result = subprocess.run(
        [sys.executable, "-I", _ENTRY],
        cwd=tree,
        env={
            **passed,
            "PATH": TOOLS_PATH if with_tools else "/nonexistent",
            "AGENTJOBS_JOB": str(job_file),
            "AGENTJOBS_REPORT": str(report),
            TOOLS_VARIABLE: msgspec.json.encode(tools).decode(),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(result.stdout)
    return FixerResult(
        result.returncode,
        result.stdout.strip().rpartition("\n")[2],
        report.read_text(),
        draft.read_text() if draft.exists() else "",
    )


class FixerProject:
    """A project with fixes that the test chooses."""

    def __init__(self, directory: Path, ecosystem: str, files: Mapping[str, str]) -> None:
        self.tree = directory / "tree"
        self.draft_reasons = ""
        self.ecosystem = ecosystem
        self._directory = directory
        for name, content in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def read(self, name: str) -> str:
        return (self.tree / name).read_text()

    def fix(self, manifest: str, *fixes: tuple[str, str, str], with_tools: bool = True) -> str:
        """Apply fixes (package, old and new version) and return the report."""
        registry = public_registry(ECOSYSTEMS[self.ecosystem])
        common = {"ecosystem": self.ecosystem, "manifest": manifest, "registry": registry}
        entries = [
            {**common, "package": package, "from": old, "to": new} for package, old, new in fixes
        ]
        result = run_fixer(self.tree, {"fixes": entries}, self._directory, with_tools)
        self.draft_reasons = result.draft_reasons
        return result.report

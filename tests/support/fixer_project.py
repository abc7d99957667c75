"""A project on which tests run the agent `cve-fixer`, outside of a sandbox."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from agentjobs.agents.builtin_agents import CVE_FIXER_DIRECTORY
from agentjobs.agents.cve_fixer_support import TOOLS_VARIABLE, find_fixer_tools
from agentjobs.sandbox.protocol import DRAFT_FILE
from agentjobs.settings.registries import ECOSYSTEMS, public_registry

_ENTRY = CVE_FIXER_DIRECTORY / "__main__.py"
# The network of the test's machine.
_PASSED_SUFFIXES = ("_proxy", "_cert_file", "_ca_bundle")


class FixerProject:
    def __init__(self, directory: Path, ecosystem: str, files: Mapping[str, str]) -> None:
        self.tree = directory / "tree"
        self.report = directory / "report.md"
        self.ecosystem = ecosystem
        for name, content in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def read(self, name: str) -> str:
        return (self.tree / name).read_text()

    @property
    def draft_reasons(self) -> str:
        return self._draft.read_text() if self._draft.exists() else ""

    @property
    def _draft(self) -> Path:
        return self.report.with_name(DRAFT_FILE)

    def fix(self, manifest: str, *fixes: tuple[str, str, str], with_tools: bool = True) -> str:
        """Apply fixes (package, old and new version) and return the report."""
        registry = public_registry(ECOSYSTEMS[self.ecosystem])
        common = {"ecosystem": self.ecosystem, "manifest": manifest, "registry": registry}
        entries = [
            {**common, "package": package, "from": old, "to": new} for package, old, new in fixes
        ]
        job = self.report.with_name("job.json")
        job.write_text(json.dumps({"fixes": entries}))
        for path in (self.report, self._draft):
            path.unlink(missing_ok=True)
        tools = find_fixer_tools().commands if with_tools else {}
        passed = {
            name: value
            for name, value in os.environ.items()
            if name.lower().endswith(_PASSED_SUFFIXES)
        }
        subprocess.run(
            [sys.executable, "-I", _ENTRY],
            cwd=self.tree,
            env={
                **passed,
                "PATH": os.environ["PATH"] if with_tools else "/nonexistent",
                "AGENTJOBS_JOB": str(job),
                "AGENTJOBS_REPORT": str(self.report),
                TOOLS_VARIABLE: json.dumps(tools),
            },
            check=False,
        )
        return self.report.read_text()

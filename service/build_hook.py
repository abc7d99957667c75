"""Writes commit and date of the build into wheels and sdists, as `agentjobs.build_record`."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "agentjobs/build_record.py"
EDITABLE = "editable"


class BuildRecordHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        record = root / "src" / MODULE
        if version == EDITABLE:
            # A checkout asks git instead.
            return
        # An sdist contains the record of its own build.
        if not record.exists():
            description = _describe(root.parent)
            if description is None:
                return
            self._directory = tempfile.TemporaryDirectory()
            record = Path(self._directory.name) / "build_record.py"
            record.write_text(description)
        target = MODULE if self.target_name == "wheel" else f"src/{MODULE}"
        build_data["force_include"][str(record)] = target

    def finalize(self, *_arguments: Any) -> None:
        if hasattr(self, "_directory"):
            self._directory.cleanup()


def _describe(root: Path) -> str | None:
    """None without a repository that git can read."""
    if not (root / ".git").exists():
        return None
    try:
        commit, date = _git(root, "log", "-1", "--no-show-signature", "--format=%H %cs").split()
        is_changed = bool(_git(root, "status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return None
    return (
        '"""Written by the build."""\n\n'
        f'COMMIT = "{commit}"\nDATE = "{date}"\nIS_CHANGED = {is_changed}\n'
    )


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "--git-dir", str(root / ".git")]
    command += ["--work-tree", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout

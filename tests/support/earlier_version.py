"""An earlier version of the service, from the history of this repository."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.paths import PROJECT
from tests.support.service import Service


def unpack_source(commit: str, directory: Path) -> Path:
    """The directory with the packages as of that commit."""
    archive = subprocess.run(
        ["git", "-C", str(PROJECT), "archive", commit, "src"], capture_output=True, check=False
    )
    assert archive.returncode == 0, (
        f"the test needs commit {commit}: clone the repository with its whole history"
        f" (git fetch --unshallow). {archive.stderr.decode()}"
    )
    directory.mkdir()
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return directory / "src"


@dataclass
class EarlierService(Service):
    """Runs the earlier source with the packages that are installed for the current one."""

    source: Path = field(default_factory=Path)

    def _spawn(self, arguments: list[str], log: IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(arguments),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def try_admin(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command([*arguments, "--data-dir", str(self.data_dir)]),
            env=self._environment(),
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )

    def _command(self, arguments: list[str]) -> list[str]:
        return [sys.executable, "-m", "agentjobs.cli.main", *arguments]

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "PYTHONPATH": str(self.source)}

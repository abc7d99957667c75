"""An earlier version of the service, from the history of this repository."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support import preloaded_cli
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

    def _spawn(self, arguments: list[str], log: IO[str]) -> preloaded_cli.ForkedProcess:
        return preloaded_cli.start(arguments, self._environment(), log, preload=self._preload)

    def try_admin(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        arguments = (*arguments, "--data-dir", str(self.data_dir))
        return preloaded_cli.run(arguments, self._environment(), typed, preload=self._preload)

    @property
    def _preload(self) -> tuple[tuple[str, str], ...]:
        return (
            ("PYTHONPATH", str(self.source)),
            (preloaded_cli.TARGET, "agentjobs.cli.main:main"),
        )

    def _environment(self) -> dict[str, str]:
        # For processes that it starts.
        return {**super()._environment(), "PYTHONPATH": str(self.source)}

"""Packages of this repository, built, and installed into environments outside of it."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.paths import PROJECT
from tests.support.service import Service


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=environment or None, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_packages(directory: Path, project: Path = PROJECT, *, only_python: bool = False) -> Path:
    call = "build_python" if only_python else "build"
    program = f"import dist, pathlib; dist.{call}(pathlib.Path({str(directory)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(project / "scripts")}
    run(sys.executable, "-c", program, cwd=directory, **environment)
    return directory


def create_environment(directory: Path) -> Path:
    """The programs of a new and empty environment."""
    run(sys.executable, "-m", "venv", "--without-pip", directory, cwd=directory.parent)
    return directory / "bin"


def install(programs: Path, *arguments: str | Path) -> None:
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet")
    run(*uv, "--python", programs / "python", *arguments, cwd=programs)


def wheel_of(packages: Path, name: str) -> Path:
    (wheel,) = packages.glob(f"{name}-[0-9]*.whl")
    return wheel


@dataclass
class InstalledService(Service):
    """Runs the program of another environment."""

    program: Path = field(default_factory=Path)

    def _spawn(self, arguments: list[str], log: IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.data_dir,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )

    def try_admin(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments, "--data-dir", self.data_dir],
            cwd=self.data_dir,
            env=self._environment(),
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )

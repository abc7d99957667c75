"""These tests boot systemd, which needs root, so only `make test SUITE=systemd` runs them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import PROJECT
from tests.support.service import wait_until

BOOT = Path(__file__).parent / "boot.sh"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/systemd" in argument for argument in config.args) else True


@dataclass(frozen=True)
class Machine:
    """A booted systemd; `run` runs a script as its root."""

    pid: int

    def run(self, script: str, environment: Mapping[str, str] | None = None) -> str:
        process = self.attempt(script, environment)
        assert process.returncode == 0, f"{script}\n{process.stdout}\n{process.stderr}"
        return process.stdout

    def attempt(
        self, script: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": os.environ["PATH"], "HOME": "/root", **(environment or {})}
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), "--all", "bash", "-euc", f"cd /\n{script}"],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    # On a disk: the copy of the root directory holds the installed service.
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        with (Path(directory) / "boot.log").open("wb") as log:
            process = subprocess.Popen(
                [BOOT, directory, PROJECT], stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield Machine(_wait_for_boot(process, Path(directory) / "boot.log"))
        finally:
            process.kill()
            process.wait()
            _remove_cgroups()


def _wait_for_boot(process: subprocess.Popen[bytes], log: Path) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def booted() -> int | None:
        assert process.poll() is None, log.read_text()
        for pid in map(int, children.read_text().split()):
            state = Machine(pid).attempt("systemctl is-system-running")
            if state.stdout.strip() in {"running", "degraded"}:
                return pid
        return None

    pid: int = wait_until(booted, "systemd to boot", 60)
    return pid


def _remove_cgroups() -> None:
    """Those that boot.sh created. They are empty once the processes have ended."""
    for pattern in ("agentjobs-systemd", "*/agentjobs-systemd"):
        for cgroup in Path("/sys/fs/cgroup").glob(pattern):
            wait_until(lambda cgroup=cgroup: _is_removed(cgroup), f"{cgroup} to be empty", 30)


def _is_removed(cgroup: Path) -> bool:
    return (
        subprocess.run(
            ["find", cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"],
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
        and not cgroup.exists()
    )

"""Runs `agentjobs` in its own process: one command to its end, or a service during a test."""

import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support import preloaded_cli

PROGRAM = (str(Path(sys.executable).with_name("agentjobs")),)
_STOP_SECONDS = 40


@dataclass(frozen=True)
class CommandResult:
    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.exit_code == 0, self.err
        return json.loads(self.out)


class CommandLine:
    """`agentjobs` on one data directory, without the environment's AGENTJOBS_ settings."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.settings = {
            # Not the one of whoever runs the tests.
            "XDG_CONFIG_HOME": str(data_dir.parent / "config"),
            **settings,
            "AGENTJOBS_DATA_DIR": str(data_dir),
        }
        self._log_names: dict[int, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        others = {name: text for name, text in os.environ.items() if not is_setting(name)}
        return {**others, **self.settings}

    def with_settings(self, **settings: str) -> Self:
        """A copy with these settings changed."""
        other = copy.copy(self)
        other.settings = {**self.settings, **settings}
        return other

    def log_of(self, process: preloaded_cli.ForkedProcess) -> str:
        """The stderr output of the process so far."""
        return Path(self._log_names[process.pid]).read_text()

    def __call__(self, *arguments: str, typed: str = "") -> CommandResult:
        done = preloaded_cli.run(arguments, self.environment, typed)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator["RunningService"]:
        """A service that has printed its base URL."""
        with self.started(*arguments) as process:
            assert process.stdout is not None
            base_url = process.stdout.readline().strip()
            assert base_url, self.log_of(process)
            yield RunningService(base_url, process)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[preloaded_cli.ForkedProcess]:
        """A process that is stopped at the end, and killed if it does not stop."""
        with tempfile.NamedTemporaryFile("w", delete=False, dir=self.data_dir.parent) as log:
            # A service can write any amount to a file; a pipe without a reader would block it.
            process = preloaded_cli.start(arguments, self.environment, log)
        assert process.stdout is not None
        self._log_names[process.pid] = log.name
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_SECONDS)
            process.stdout.close()


@dataclass(frozen=True)
class RunningService:
    base_url: str
    process: preloaded_cli.ForkedProcess


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, "the condition did not become true"
        time.sleep(0.02)


def make_repository(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text)
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*identity, "commit", "-q", "-m", "First", "--allow-empty"),
    ):
        subprocess.run(["git", *arguments], cwd=directory, check=True)
    return directory


def is_setting(name: str) -> bool:
    return name.startswith("AGENTJOBS_")

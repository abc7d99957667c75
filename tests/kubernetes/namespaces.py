"""The namespaces of a test cluster. Processes, mounts and interfaces in them end with them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# The first process reaps orphans, and ends with its standard input.
_INIT = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.stdin.buffer.read()
"""
# `run` returns when the output is no longer its own, so the pid is written by then.
_DAEMON = 'echo $$ > "$0.pid"; exec "$@" < /dev/null >> "$0.log" 2>&1'
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Only what hangs: a busy machine may take many times as long as a quiet one.
_WAIT_SECONDS = 300.0


class CommandFailed(Exception):
    """A command in the namespaces ended with an error."""


class Namespaces:
    """`directory` keeps the pid files and logs of what runs inside; the programs of `binaries`
    come before others of the same name."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.directory = directory
        self._environment = {"HOME": "/root", "PATH": f"{binaries}:{_PATH}"}
        self._child: subprocess.Popen[bytes] | None = None
        self._keep_open: int | None = None

    def create(self, *, outlives_caller: bool) -> None:
        """Without `outlives_caller`, everything inside ends with this process."""
        self.directory.mkdir(parents=True, exist_ok=True)
        read_end, write_end = os.pipe()
        command = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--net", "--uts"]
        with (self.directory / "init.log").open("wb") as log:
            child = subprocess.Popen(
                [*command, sys.executable, "-c", _INIT],
                stdin=read_end,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,) if outlives_caller else (),
                start_new_session=True,
            )
        self._child = child
        os.close(read_end)
        self._keep_open = write_end
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        wait_for(children.read_text, "the namespaces were not created")
        init = int(children.read_text())
        # `unshare` becomes the first process once /proc is mounted.
        wait_for(lambda: _name(init) != "unshare", "the first process did not start")
        (self.directory / "init.pid").write_text(f"{init} {_start_time(init)}")

    @property
    def init_pid(self) -> int | None:
        """The first process, seen from outside; None if it is gone."""
        try:
            pid, started = (self.directory / "init.pid").read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == started else None

    def run(self, *command: str | Path, text: str | None = None) -> str:
        done = subprocess.run(
            [*self.enter(), *map(str, command)],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def enter(self) -> list[str]:
        init = self.init_pid
        if init is None:
            raise CommandFailed("the test cluster is not running")
        return ["nsenter", f"--target={init}", "--mount", "--net", "--pid", "--uts", "--"]

    def start(self, name: str, *command: str | Path) -> None:
        """Starts a daemon inside; its output is in NAME.log."""
        path = self.directory / name
        # A child of the first process: it may outlive this one, and others may end it.
        self.run("setsid", "--fork", "sh", "-c", _DAEMON, path, *command)

    def signal(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        with suppress(FileNotFoundError, CommandFailed):
            pid = (self.directory / f"{name}.pid").read_text().strip()
            self.run("kill", f"-{number.value}", pid)

    def kill(self, name: str) -> None:
        """Returns when it has ended."""
        self.signal(name)
        wait_for(lambda: not self.is_running(name), f"{name} did not end")

    def is_running(self, name: str) -> bool:
        try:
            pid = (self.directory / f"{name}.pid").read_text().strip()
            self.run("kill", "-0", pid)
        except (FileNotFoundError, CommandFailed):
            return False
        return True

    def destroy(self) -> None:
        init = self.init_pid
        if init is not None:
            with suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
            # The kernel kills the others and waits for them before this one is gone.
            wait_for(lambda: self.init_pid is None, "the namespaces did not end")
        if self._keep_open is not None:
            os.close(self._keep_open)
            self._keep_open = None
        if self._child is not None:
            self._child.wait()
            self._child = None


def wait_for(condition: Callable[[], object], what: str, seconds: float = _WAIT_SECONDS) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(what)
        time.sleep(0.05)


def _start_time(pid: int) -> str:
    """With the pid it identifies a process; empty if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()

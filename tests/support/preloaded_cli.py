"""`agentjobs` in its own process, forked from one that has already imported it.

Importing takes most of the CPU time of a short command and half of a service's start. Tests of the
start itself run the installed program. Of the program this module knows only the name; what can be
done ahead is in `cli_warm_up.py`, and a version that lacks a part of that only starts more slowly.
"""

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any

import typer.main

from tests.support.renames import rename_command, rename_settings

_COMMAND_SECONDS = 60
_HEADER_BYTES = 8
_PR_SET_PDEATHSIG = 1
PROGRAM = "agentjobs"
# Names another function to run, for a version that starts elsewhere.
TARGET = "PRELOADED_CLI_TARGET"
_importing: list["subprocess.Popen[bytes]"] = []

# Building the command line from its functions takes most of the CPU time of a short command.
get_command = cache(typer.main.get_command)


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use, for a process that is not a child."""

    def __init__(self, server: "_Server", pid: int, stdout: IO[str] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._server = server
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None and self._has_ended(0):
            self.returncode = self._server.call({"reap": self.pid})["code"]
            os.close(self._pidfd)
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None and not self._has_ended(timeout):
            raise subprocess.TimeoutExpired("agentjobs", timeout)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float) -> bool:
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        return bool(waiting.poll(timeout * 1_000))


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    typed: str = "",
    *,
    setup: str = "",
    preload: tuple[tuple[str, str], ...] = (),
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` would, and otherwise like `start`."""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(typed.encode())
        stdin.seek(0)
        streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        server = _server(preload=preload)
        pid = server.fork(arguments, environment, streams, setup=setup)
        code = ForkedProcess(server, pid, None).wait(_COMMAND_SECONDS)
        return subprocess.CompletedProcess(list(arguments), code, _text(stdout), _text(stderr))


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stderr: IO[str],
    *,
    setup: str = "",
    preload: tuple[tuple[str, str], ...] = (),
) -> ForkedProcess:
    """Start a service as the leader of a process group, like a shell does.

    `setup` is a function (`package.module:function`) that the process calls first. `preload` are
    variables that must be set when a program is executed, such as LD_PRELOAD or PYTHONPATH.
    """
    readable, writable = os.pipe()
    with open(os.devnull, "rb") as stdin:  # noqa: PTH123 - a descriptor, not a path
        server = _server(preload=preload)
        streams = [stdin.fileno(), writable, stderr.fileno()]
        pid = server.fork(arguments, environment, streams, leads_group=True, setup=setup)
    os.close(writable)
    return ForkedProcess(server, pid, os.fdopen(readable))


class _Server:
    """The process that forks and reaps, at the other end of a socket; one request at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        streams: Sequence[int],
        *,
        leads_group: bool = False,
        setup: str = "",
    ) -> int:
        request = {
            "arguments": rename_command(arguments),
            "environment": rename_settings(environment),
            "leads_group": leads_group,
            "setup": setup,
        }
        pid: int = self.call({"fork": request}, streams)["pid"]
        return pid

    def call(self, request: dict[str, Any], streams: Sequence[int] = ()) -> dict[str, Any]:
        with self._lock:
            _send(self._socket, request, streams)
            return _receive(self._socket)[0]


@cache
def listen(preload: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Start the process that imports, and return its address.

    Processes that are forked afterwards use it too.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        # An address that the kernel chooses.
        listener.bind("")
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.preloaded_cli", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={**os.environ, **dict(preload)},
        )
        address: bytes = listener.getsockname()
    # Kept in forked processes too: a process that is still running must not be collected.
    _importing.append(process)
    atexit.register(process.wait)
    atexit.register(process.kill)
    return address


@cache
def _server(preload: tuple[tuple[str, str], ...]) -> _Server:
    connection = socket.socket(socket.AF_UNIX)
    atexit.register(connection.close)
    connection.connect(listen(preload))
    return _Server(connection)


def _accept(listener: socket.socket) -> None:
    """Serve each connection in a process of its own, which ends with the connection."""
    _end_with_parent()
    _preload()
    # The kernel reaps these processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(connection)
            os._exit(0)
        connection.close()


def _serve(connection: socket.socket) -> None:
    while True:
        try:
            request, streams = _receive(connection)
        except EOFError:
            return
        if "reap" in request:
            status = os.waitpid(request["reap"], 0)[1]
            _send(connection, {"code": os.waitstatus_to_exitcode(status)})
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(request["fork"], streams)
        for stream in streams:
            os.close(stream)
        _send(connection, {"pid": pid})


def _preload() -> None:
    typer.main.get_command = get_command
    # The environment of a service has neither.
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        os.environ.pop(name, None)
    load_program()
    with suppress(ImportError):
        importlib.import_module("tests.support.cli_warm_up").warm_up()
    # The children do not copy pages because a collector touched them.
    gc.collect()
    gc.freeze()


@cache
def load_program() -> Callable[[], None]:
    """The function of the installed program, or the one that the environment names."""
    (script,) = entry_points(group="console_scripts", name=PROGRAM)
    target = os.environ.get(TARGET, script.value)
    program: Callable[[], None] = EntryPoint(PROGRAM, target, script.group).load()
    return program


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    import faulthandler

    code = 1
    try:
        _end_with_parent()
        if request["leads_group"]:
            os.setpgid(0, 0)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        faulthandler.enable()
        sys.argv = [PROGRAM, *request["arguments"]]
        # The program calls itself by this, and not by the module that was started.
        sys.modules["__main__"].__package__ = ""
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        if request["setup"]:
            module, _, function = request["setup"].partition(":")
            getattr(importlib.import_module(module), function)()
        load_program()()
    except Exception:  # noqa: BLE001 - the process ends here, whatever it was
        traceback.print_exc()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            # An interpreter that ends reports it likewise.
            traceback.print_exc()
            code = 120
        finally:
            os._exit(code)


def _end_with_parent() -> None:
    """And so with the tests, however they end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def fill_stdout() -> None:
    """A `setup` for a command that cannot print."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def _send(connection: socket.socket, message: dict[str, Any], streams: Sequence[int] = ()) -> None:
    body = json.dumps(message).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else []
    connection.sendmsg([len(body).to_bytes(_HEADER_BYTES)], rights)
    connection.sendall(body)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Raises EOFError when the other end is gone."""
    header, streams, _, _ = socket.recv_fds(connection, _HEADER_BYTES, 3)
    body = b""
    while header and len(body) < int.from_bytes(header):
        body += connection.recv(int.from_bytes(header) - len(body))
    if not header:
        raise EOFError
    return json.loads(body), list(streams)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


if __name__ == "__main__":
    _accept(socket.socket(fileno=int(sys.argv[1])))

"""Runs the tests in several processes, forked from the one that collected them.

Importing and collecting all tests takes several seconds of CPU time, which processes that start
afresh, like those of pytest-xdist, spend again each.
"""

import atexit
import fcntl
import os
import random
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support import preloaded_cli

_PREFIX = "process-"
_FILE_NUMBER = struct.Struct("=H")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Only the private method accepts a short option in lower case.
    parser.getgroup("parallel")._addoption(
        "-n", dest="processes", type=int, default=0, metavar="N", help="run tests in N processes"
    )


def scope_of(nodeid: str) -> str:
    """What the tests of a file share is made by one process; the browser, for all its files."""
    return "tests/browser" if nodeid.startswith("tests/browser/") else nodeid.partition("::")[0]


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """What the first process that needs it makes is used by all, and must not be changed."""
    own = factory.getbasetemp()
    shared = own.parent if own.name.startswith(_PREFIX) else own
    path = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = shared / f"{name}.unfinished"
            make(unfinished)
            unfinished.rename(path)
    return path


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Otherwise pytest runs the tests in this process, or says why it cannot."""
    option = session.config.option
    if not option.processes or option.collectonly or session.testsfailed:
        return None
    _Run(session).run(option.processes)
    return True


class _Run:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        files = groupby(session.items, lambda item: scope_of(item.nodeid))
        self._files = [list(items) for _, items in files]
        self._directory = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._pids: dict[Connection, int] = {}
        self._running: dict[Connection, str] = {}
        self._failures: list[str] = []

    def run(self, processes: int) -> None:
        waiting = _filled_pipe(len(self._files))
        # One for all processes.
        preloaded_cli.listen()
        for number in range(processes):
            receiving, sending = Pipe(duplex=False)
            pid = os.fork()
            if pid == 0:
                for connection in (*self._pids, receiving):
                    connection.close()
                directory = self._directory / f"{_PREFIX}{number}"
                _Process(self._session, sending, directory).run(self._files, waiting)
            sending.close()
            self._pids[receiving] = pid
        os.close(waiting)
        try:
            while self._pids and not self._session.shouldfail:
                readable: Any = wait(list(self._pids))
                for connection in readable:
                    if not self._session.shouldfail:
                        self._receive(connection)
        finally:
            # Processes that have not ended cannot send the next report, and end therefore.
            for unread in list(self._pids):
                self._await_end(unread)
        if self._failures and not self._session.shouldfail:
            self._session.shouldfail = "; ".join(self._failures)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _receive(self, connection: Connection) -> None:
        try:
            message = connection.recv()
        except EOFError:
            if code := self._await_end(connection):
                last = self._running.get(connection, "no test")
                self._failures.append(f"a test process ended with {code} in or after {last}")
            return
        if isinstance(message, str):
            self._running[connection] = message
            return
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=message)
        hook.pytest_runtest_logreport(report=report)

    def _await_end(self, connection: Connection) -> int:
        connection.close()
        status = os.waitpid(self._pids.pop(connection), 0)[1]
        return os.waitstatus_to_exitcode(status)


class _Process:
    """A plugin of the forked process, which sends its reports."""

    def __init__(self, session: pytest.Session, sending: Connection, directory: Path) -> None:
        self._session = session
        self._config = session.config
        self._sending = sending
        self._directory = directory

    def run(self, files: list[list[pytest.Item]], waiting: int) -> NoReturn:
        code = 1
        try:
            self._separate()
            self._run_items(_items(files, waiting))
            # Raises for whatever the garbage collector finds open.
            self._config._ensure_unconfigure()
            code = 0
        except BrokenPipeError:
            pass  # the run ended early
        except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
            traceback.print_exc()
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._sending.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._sending.send(data)

    def _separate(self) -> None:
        """From what the processes would share: files, output, exit functions, random numbers."""
        atexit._clear()
        plugins: Any = self._config.pluginmanager
        self._directory.mkdir(mode=0o700)
        self._config._tmp_path_factory._basetemp = self._directory  # type: ignore[attr-defined]
        capture = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        plugins.get_plugin("terminalreporter")._tw._file = Path(os.devnull).open("w")  # noqa: SIM115
        plugins.register(self)
        random.seed()

    def _run_items(self, items: Iterator[pytest.Item]) -> None:
        item = next(items, None)
        try:
            while item is not None and not self._session.shouldfail:
                following = next(items, None)
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                item = following
        finally:
            self._session._setupstate.teardown_exact(None)


def _filled_pipe(count: int) -> int:
    """A pipe with the numbers of all files, from which each process takes its next."""
    readable, writable = os.pipe()
    os.write(writable, b"".join(map(_FILE_NUMBER.pack, range(count))))
    os.close(writable)
    return readable


def _items(files: list[list[pytest.Item]], waiting: int) -> Iterator[pytest.Item]:
    while number := os.read(waiting, _FILE_NUMBER.size):
        yield from files[_FILE_NUMBER.unpack(number)[0]]

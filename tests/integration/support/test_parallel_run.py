"""Tests in several processes: each file in one, and no failure is lost."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import PROJECT

_TEST = """
import atexit, os, signal, pytest

@pytest.fixture(scope="session", autouse=True)
def shared(tmp_path_factory):
    made = tmp_path_factory.mktemp("shared")
    yield
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} removed {{made}}\\n")

def _log_exit():
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} exited\\n")

def _log():
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} {name}\\n")
    atexit.register(_log_exit)
    print("printed by {name}")

def test_first(): _log()
def test_second(): _log(); {statement}
"""


def _run(directory: Path, statements: list[str], *options: str) -> tuple[int, str, list[list[str]]]:
    log = directory / "log"
    for number, statement in enumerate(statements):
        name = f"file_{number}"
        text = _TEST.format(log=str(log), name=name, statement=statement)
        (directory / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.parallel_run", "-n", "2",
         "-c", os.devnull, "--rootdir", str(directory), "-p", "no:cacheprovider",
         "--basetemp", str(directory / "tmp"), *options, str(directory)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, cwd=PROJECT, check=False,
    )  # fmt: skip
    return (
        done.returncode,
        done.stdout + done.stderr,
        [line.split() for line in log.read_text().splitlines()],
    )


def test_the_tests_of_a_file_run_in_one_process_and_fixtures_are_removed(tmp_path: Path) -> None:
    code, output, lines = _run(tmp_path, ["pass", "assert os.getpid() < 0", "pass"])
    assert code == 1
    assert "1 failed, 5 passed" in output
    assert "printed by file_1" in output
    assert "assert os.getpid() < 0" in output
    tests = [line for line in lines if line[1].startswith("file_")]
    assert sorted(name for _, name in tests) == sorted(2 * ["file_0", "file_1", "file_2"])
    assert len({(pid, name) for pid, name in tests}) == 3
    removed = [line for line in lines if line[1] == "removed"]
    assert {line[0] for line in removed} == {pid for pid, _ in tests}
    assert len({line[2] for line in removed}) == len(removed)
    assert {line[0] for line in lines if line[1] == "exited"} == {line[0] for line in removed}


def test_a_process_that_dies_fails_the_run(tmp_path: Path) -> None:
    code, output, _ = _run(tmp_path, ["pass", "os.kill(os.getpid(), signal.SIGKILL)", "pass"])
    assert code == 1
    assert "ended with -9 in or after test_file_1.py::test_second" in output
    assert "passed" in output


def test_a_run_ends_with_the_first_failure_if_told_so(tmp_path: Path) -> None:
    code, output, lines = _run(tmp_path, ["assert False"] * 6, "-x")
    assert code == 1
    assert "stopping after 1 failures" in output
    removed = [line for line in lines if line[1] == "removed"]
    assert {line[0] for line in removed} == {line[0] for line in lines}
    assert len([line for line in lines if line[1].startswith("file_")]) < 12

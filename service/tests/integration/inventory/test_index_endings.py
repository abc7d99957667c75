"""How the index process may end, and how the service reports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentjobs.inventory.index.process import IndexFailure
from agentjobs.inventory.index.wire import Request, encode_frame
from tests.support.indexing import IndexSetup, index_setup
from tests.support.service import wait_until


@pytest.fixture
def setup(tmp_path: Path) -> IndexSetup:
    return index_setup(tmp_path)


def put_fake_git_on_path(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script in directory of git simulates what hostile repositories cause."""
    bin_directory = directory / "bin"
    bin_directory.mkdir()
    (bin_directory / "git").write_text(f"#!/bin/sh\n{script}\n")
    (bin_directory / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_directory}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -KILL $PPID", "ran out of memory; AGENTJOBS_INDEX_MEMORY_MIB"),
        ("kill -SEGV $PPID", "crashed with SIGSEGV"),
        ("echo 'fatal: object file is empty' >&2; exit 128", "object file is empty"),
    ],
)
async def test_a_process_that_dies_is_reported_as_a_failure(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    commit = setup.commit({"a": b"1\n"})
    put_fake_git_on_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match=message):
        await setup.index(commit)


async def test_an_index_that_times_out_is_killed_with_its_child_processes(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = setup.commit({"a": b"1\n"})
    pid = tmp_path / "pid"
    put_fake_git_on_path(tmp_path, f"echo $$ > {pid}; exec sleep 1000", monkeypatch)
    # On a busy machine the time may be over before git starts.
    for seconds in (1, 5, 25):
        message = f"longer than {seconds} seconds; AGENTJOBS_INDEX_TIMEOUT"
        with pytest.raises(IndexFailure, match=message):
            await setup.index(commit, timeout_seconds=seconds)
        if pid.exists():
            break
    wait_until(lambda: _is_dead(int(pid.read_text())), "the end of git")


def test_the_process_ends_when_the_service_is_killed(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, pids = setup.commit({"a": b"1\n"}), tmp_path / "pids"
    # The process of the index and its parent, which stands for the service.
    script = f"cut -d ' ' -f 1,4 /proc/$PPID/stat > {pids}.new; mv {pids}.new {pids}; sleep 1000"
    put_fake_git_on_path(tmp_path, script, monkeypatch)
    request = Request("index", str(setup.git_dir), commit, str(setup.poms_path), 1_024)
    service = subprocess.Popen([sys.executable, "-c", _SERVICE, encode_frame(request).hex()])
    wait_until(pids.exists, "the start of git")
    index_pid, service_pid = map(int, pids.read_text().split())
    assert service_pid == service.pid
    service.kill()
    service.wait()
    wait_until(lambda: _is_dead(index_pid), "the end of the index process")


# Keeps the standard input of the index process open.
_SERVICE = """
import subprocess, sys
from agentjobs.inventory.index.process import _COMMAND
index = subprocess.Popen([sys.executable, "-c", _COMMAND], stdin=subprocess.PIPE)
index.stdin.write(bytes.fromhex(sys.argv[1]))
index.stdin.flush()
index.wait()
"""


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


async def test_an_index_that_exceeds_its_memory_limit_is_reported_as_a_failure(
    setup: IndexSetup,
) -> None:
    commit = setup.commit({"a": b"1\n"})
    with pytest.raises(IndexFailure, match=r"more than 8 MiB of memory; AGENTJOBS_INDEX_MEMORY"):
        await setup.index(commit, memory_mib=8)


async def test_a_manifest_that_exceeds_the_memory_limit_is_only_a_warning(
    setup: IndexSetup,
) -> None:
    packages = b",".join(b'"node_modules/p%d": {"version": "1.0"}' % at for at in range(400_000))
    lock = b'{"lockfileVersion": 3, "packages": {%s}}' % packages
    commit = setup.commit({"package-lock.json": lock, "a": b"1\n"})
    result = await setup.index(commit, memory_mib=150)
    assert result.line_count == 2
    assert [warning.path for warning in result.warnings] == ["package-lock.json"]

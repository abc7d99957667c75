"""How the index process may end, and how the service reports it."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentjobs.inventory.index.cache import AnalysisCache
from agentjobs.inventory.index.process import IndexFailure, SpareChild
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


async def test_a_worker_process_that_dies_ends_the_whole_index(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = setup.commit_many(1_600)
    script = f'[ "$1" = cat-file ] && kill -SEGV $PPID; PATH={os.environ["PATH"]}; exec git "$@"'
    put_fake_git_on_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match="crashed with SIGSEGV"):
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


async def test_worker_processes_end_when_their_parent_is_killed(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = setup.commit_many(1_600)
    # Kills only the grandparent, the process that the service talks to.
    script = (
        f'PATH={os.environ["PATH"]}; [ "$1" = cat-file ] || exec git "$@"\n'
        # If git starts late, its parent may already be dead and replaced by init.
        f"[ $PPID -gt 1 ] || exit 1; echo $PPID >> {tmp_path}/workers\n"
        "kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); exec sleep 30"
    )
    put_fake_git_on_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match="process was killed"):
        await setup.index(commit)
    workers = [int(pid) for pid in (tmp_path / "workers").read_text().split()]
    wait_until(lambda: all(map(_is_dead, workers)), "the end of the worker processes")


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


async def test_a_spare_process_serves_one_request_and_a_dead_one_is_replaced(
    setup: IndexSetup,
) -> None:
    commit, spare = setup.commit({"a": b"1\n"}), SpareChild()
    await spare.prepare()
    waiting = spare._waiting
    assert waiting is not None
    os.killpg(waiting.pid, signal.SIGKILL)
    await waiting.wait()
    for _ in range(2):
        assert (await setup.index(commit, spare=spare)).line_count == 1
    await spare.prepare()
    await spare.close()


async def test_the_next_index_uses_the_state_saved_after_the_last_response(
    setup: IndexSetup,
) -> None:
    first, spare = setup.commit({"a.py": b"import os\n"}), SpareChild()
    await setup.index(first, spare=spare)
    await setup.index(setup.commit({"b.py": b"import a\n"}), after=first, spare=spare)
    # Only a scan of the whole commit reports progress.
    assert setup.progress == []
    await spare.close()


async def test_a_process_that_is_saving_its_state_ends_with_the_service(setup: IndexSetup) -> None:
    commit, spare = setup.commit({"a.py": b"import os\n"}), SpareChild()
    await spare.prepare()
    waiting = spare._waiting
    assert waiting is not None
    AnalysisCache(setup.cache_path).close()
    with closing(sqlite3.connect(setup.cache_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await setup.index(commit, spare=spare)).line_count == 1
        assert waiting.returncode is None
        await spare.close()
    assert waiting.returncode == -signal.SIGKILL

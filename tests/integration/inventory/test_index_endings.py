"""How the process that reads a repository may end, and what the service then says."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentjobs.inventory.index.cache import FactsCache
from agentjobs.inventory.index.process import IndexFailure, SpareChild
from tests.support.indexing import IndexHouse, index_house
from tests.support.service import wait_until


@pytest.fixture
def house(tmp_path: Path) -> IndexHouse:
    return index_house(tmp_path)


def put_git_on_the_path(place: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repositories cannot run programs here; a git of the test's own stands for what they do."""
    directory = place / "bin"
    directory.mkdir()
    (directory / "git").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -KILL $PPID", "ran out of memory; AGENTJOBS_INDEX_MEMORY_MIB"),
        ("kill -SEGV $PPID", "ended by SIGSEGV"),
        ("echo 'fatal: object file is empty' >&2; exit 128", "object file is empty"),
    ],
)
async def test_a_process_that_dies_is_a_failure_in_words(
    house: IndexHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    commit = house.commit({"a": b"1\n"})
    put_git_on_the_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match=words):
        await house.index(commit)


async def test_a_share_that_dies_ends_the_whole_index(
    house: IndexHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = house.commit_many(1_600)
    script = f'[ "$1" = cat-file ] && kill -SEGV $PPID; PATH={os.environ["PATH"]}; exec git "$@"'
    put_git_on_the_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match="ended by SIGSEGV"):
        await house.index(commit)


async def test_an_index_without_end_is_ended_with_all_it_started(
    house: IndexHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = house.commit({"a": b"1\n"})
    put_git_on_the_path(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 1000", monkeypatch)
    with pytest.raises(IndexFailure, match=r"longer than 1 seconds; AGENTJOBS_INDEX_TIMEOUT"):
        await house.index(commit, timeout_seconds=1)
    wait_until(lambda: _is_dead(int((tmp_path / "pid").read_text())), "the end of git")


async def test_who_is_left_alone_in_the_middle_ends_too(
    house: IndexHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = house.commit_many(1_600)
    # Two parents up is the process that the service talks to: only it is killed.
    script = (
        f'PATH={os.environ["PATH"]}; [ "$1" = cat-file ] || exec git "$@"\n'
        # One that starts late may find its share dead already, and another parent in its place.
        f"[ $PPID -gt 1 ] || exit 1; echo $PPID >> {tmp_path}/shares\n"
        "kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); exec sleep 30"
    )
    put_git_on_the_path(tmp_path, script, monkeypatch)
    with pytest.raises(IndexFailure, match="killed from outside"):
        await house.index(commit)
    shares = [int(pid) for pid in (tmp_path / "shares").read_text().split()]
    wait_until(lambda: all(map(_is_dead, shares)), "the end of the shares")


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


async def test_an_index_that_needs_more_memory_than_it_may_have_is_a_failure_in_words(
    house: IndexHouse,
) -> None:
    commit = house.commit({"a": b"1\n"})
    with pytest.raises(IndexFailure, match=r"more than 8 MiB of memory; AGENTJOBS_INDEX_MEMORY"):
        await house.index(commit, memory_mib=8)


async def test_a_manifest_that_needs_more_memory_than_there_is_does_not_end_the_index(
    house: IndexHouse,
) -> None:
    packages = b",".join(b'"node_modules/p%d": {"version": "1.0"}' % at for at in range(400_000))
    lock = b'{"lockfileVersion": 3, "packages": {%s}}' % packages
    commit = house.commit({"package-lock.json": lock, "a": b"1\n"})
    result = await house.index(commit, memory_mib=150)
    assert result.line_count == 2
    assert [warning.path for warning in result.warnings] == ["package-lock.json"]


async def test_a_process_that_waited_serves_one_request_and_a_dead_one_is_replaced(
    house: IndexHouse,
) -> None:
    commit, spare = house.commit({"a": b"1\n"}), SpareChild()
    await spare.prepare()
    waiting = spare._waiting
    assert waiting is not None
    os.killpg(waiting.pid, signal.SIGKILL)
    await waiting.wait()
    for _ in range(2):
        assert (await house.index(commit, spare=spare)).line_count == 1
    await spare.prepare()
    await spare.close()


async def test_the_next_index_finds_what_the_last_one_kept_after_its_answer(
    house: IndexHouse,
) -> None:
    first, spare = house.commit({"a.py": b"import os\n"}), SpareChild()
    await house.index(first, spare=spare)
    await house.index(house.commit({"b.py": b"import a\n"}), after=first, spare=spare)
    # Whoever begins anew says how far it is.
    assert house.seen == []
    await spare.close()


async def test_what_is_still_being_kept_ends_with_the_service(house: IndexHouse) -> None:
    commit, spare = house.commit({"a.py": b"import os\n"}), SpareChild()
    await spare.prepare()
    waiting = spare._waiting
    assert waiting is not None
    FactsCache(house.cache_path).close()
    with closing(sqlite3.connect(house.cache_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await house.index(commit, spare=spare)).line_count == 1
        assert waiting.returncode is None
        await spare.close()
    assert waiting.returncode == -signal.SIGKILL

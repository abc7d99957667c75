"""The search for secrets in what setup left, with the real grep and with one that never ends."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.slots import MAX_BUILDS
from agentjobs_worker.environments import secret_search
from agentjobs_worker.environments.secret_search import SearchFailed, find_secret
from tests.support.stores import until

SECRET = "correct-horse-battery"


@pytest.fixture
def endless_grep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory in which each search leaves a file with its process ID."""
    programs, pids = tmp_path / "programs", tmp_path / "pids"
    programs.mkdir()
    pids.mkdir()
    (programs / "grep").write_text(f"#!/bin/sh\n: >{pids}/$$\nexec sleep 600\n")
    (programs / "grep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield pids
    for pid in pids.iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.name), signal.SIGKILL)


async def test_a_secret_is_found_in_one_of_many_files_or_in_a_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert await find_secret([home], [SECRET]) is None
    for number in range(2_000):
        (home / f"{number:04}").write_text(f"token = {SECRET}\n")
    path = await find_secret([home], [SECRET])
    assert path is not None
    assert (home / path).is_file()
    workspace = tmp_path / "workspace"
    (workspace / SECRET).mkdir(parents=True)
    assert await find_secret([workspace], [SECRET]) == SECRET


async def test_long_searches_leave_the_threads_of_the_service_to_others(
    tmp_path: Path, endless_grep: Path
) -> None:
    (tmp_path / "home").mkdir()
    threads = min(MAX_BUILDS, (os.cpu_count() or 1) + 4)
    searches = [
        asyncio.create_task(find_secret([tmp_path / "home"], [SECRET])) for _ in range(threads)
    ]
    await until(lambda: len(list(endless_grep.iterdir())) == threads, within_seconds=60)
    async with asyncio.timeout(20):
        await asyncio.to_thread(os.getpid)
    for search in searches:
        search.cancel()
    await asyncio.wait(searches)


@pytest.mark.parametrize("end", ["exit 2", "kill -9 $$", "exec sleep 600"])
async def test_a_search_that_fails_is_no_search(
    tmp_path: Path, endless_grep: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(secret_search, "SEARCH_SECONDS", 1)
    program = endless_grep.parent / "programs" / "grep"
    program.write_text(f"#!/bin/sh\n: >{endless_grep}/$$\n{end}\n")
    (tmp_path / "home").mkdir()
    with pytest.raises(SearchFailed, match="could not be searched for secrets"):
        await find_secret([tmp_path / "home"], [SECRET])

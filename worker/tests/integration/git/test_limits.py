"""The limits of git processes, shown with packs that expand to enormous objects."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.git.limits import GitLimits, set_git_limits
from agentjobs_runtime.git.process import GitError, git, open_git, stop_git
from tests.support.git_bombs import delta_bomb_pack
from tests.support.workspace import run_git

MIB = 1024**2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-q", "--bare", "repository.git")
    return tmp_path / "repository.git"


@pytest.fixture(autouse=True)
def restore_limits() -> Iterator[None]:
    yield
    set_git_limits(GitLimits())


async def index_pack(repository: Path, pack: bytes) -> None:
    await git("index-pack", "--stdin", git_dir=repository, input=pack)


async def test_a_pack_with_enormous_objects_ends_at_the_memory_limit(repository: Path) -> None:
    set_git_limits(GitLimits(memory_bytes=128 * MIB))
    pack = delta_bomb_pack(objects=1, object_bytes=512 * MIB)
    assert len(pack) < 10_000
    with pytest.raises(GitError) as caught:
        await index_pack(repository, pack)
    assert "128 MiB of memory (the setting limit_git_memory_mib)" in caught.value.reason


async def test_a_pack_that_takes_long_to_read_ends_at_the_cpu_limit(repository: Path) -> None:
    set_git_limits(GitLimits(cpu_seconds=1))
    pack = delta_bomb_pack(objects=100, object_bytes=64 * MIB)
    with pytest.raises(GitError) as caught:
        await index_pack(repository, pack)
    assert "1 seconds of CPU time (the setting limit_git_cpu_seconds)" in caught.value.reason


async def test_an_ordinary_pack_passes_the_limits(repository: Path) -> None:
    await index_pack(repository, delta_bomb_pack(objects=3, object_bytes=4 * MIB))
    assert list((repository / "objects" / "pack").glob("*.pack"))


async def test_children_of_git_inherit_the_limits(repository: Path) -> None:
    set_git_limits(GitLimits(memory_bytes=200 * MIB, cpu_seconds=77))
    shown = await git(*("-c", "alias.limits=!cat /proc/self/limits", "limits"), git_dir=repository)
    limits = shown.stdout.decode()
    assert f"Max data size             {200 * MIB}" in limits
    assert "Max cpu time              77" in limits
    assert "Max core file size        0" in limits


async def test_the_cpu_time_of_git_and_its_children_is_known_at_its_end(repository: Path) -> None:
    spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    process = await open_git("-c", f"alias.spin=!{spin}", "spin", git_dir=repository)
    await process.wait()
    await stop_git(process)
    assert process.cpu_seconds > 0.02

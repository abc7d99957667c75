"""Large changes are committed in a child process within limits; the service stays responsive."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.git.limits import GitLimits, set_git_limits
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.mirrors.mirror import INCOMING_PREFIX
from agentjobs_worker.workspace.commit import MAX_SMALL_ENTRIES
from tests.support.event_loop import longest_turn
from tests.support.git_server import until
from tests.support.workspace import WorkspaceHarness, workspace_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened
    set_git_limits(GitLimits())


def write_files(tree: Path, count: int, prefix: str = "file") -> None:
    for number in range(count):
        (tree / f"{prefix}{number}").touch()


def write_long_paths(tree: Path, count: int) -> None:
    """Files below 14 directories with names of 240 characters."""
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(14):
        os.mkdir("d" * 240, dir_fd=descriptor)
        inner = os.open("d" * 240, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    for number in range(count):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=descriptor))
    os.close(descriptor)


def staged(harness: WorkspaceHarness) -> list[Path]:
    return list(harness.mirror.glob(f"{INCOMING_PREFIX}*"))


async def test_a_large_change_is_committed_like_a_small_one(harness: WorkspaceHarness) -> None:
    count = MAX_SMALL_ENTRIES + 1
    async with harness.checkout() as checkout:
        write_files(checkout.tree, count)
        (checkout.tree / "README.md").write_text("changed\n")
        commit = await harness.commit(checkout)
    assert commit is not None
    changes = harness.changed(commit)
    assert len(changes) == count + 1
    assert "M 100644 README.md" in changes
    assert staged(harness) == []


async def test_long_paths_are_refused_while_the_event_loop_stays_responsive(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        write_long_paths(checkout.tree, 5_000)
        async with longest_turn() as longest:
            with pytest.raises(UnsafeChange, match="touches paths with more than 8388608 bytes"):
                await harness.commit(checkout)
    # Starting a process can cost this thread a tenth of a second on a busy virtual machine.
    assert longest.cpu_seconds < 0.25
    assert staged(harness) == []


async def test_protected_paths_are_refused_in_a_large_change(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        write_files(checkout.tree, MAX_SMALL_ENTRIES + 1)
        (checkout.tree / "CODEOWNERS").write_text("* @mallory\n")
        with pytest.raises(UnsafeChange, match="protected paths: CODEOWNERS") as caught:
            await harness.commit(checkout)
    assert caught.value.code == "protected_path"


async def test_a_change_that_exceeds_the_limits_is_refused(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        write_files(checkout.tree, MAX_SMALL_ENTRIES + 1)
        set_git_limits(GitLimits(memory_bytes=8 * 1024**2))
        with pytest.raises(UnsafeChange, match="more than the memory in limit_git_memory_mib"):
            await harness.commit(checkout)
    assert staged(harness) == []


async def test_a_cancelled_commit_leaves_nothing_behind(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        write_files(checkout.tree, MAX_SMALL_ENTRIES + 1)
        committing = asyncio.create_task(harness.commit(checkout))
        await until(lambda: staged(harness))
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
    assert staged(harness) == []

"""Commits that are too large to check out are refused before anything is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.git import blocking
from agentjobs.git.blocking import GitReadError, list_files, read_changes, start_diff
from agentjobs.inventory.commit_summary import read_commit_summary
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.checkout_limits import CheckoutLimits
from agentjobs.workspace.errors import RepoUnavailable
from tests.support.git_bombs import commit_tree_bomb
from tests.support.workspace import REPO, WorkspaceHarness, workspace_harness

FILES_MESSAGE = r"more than 1000 files and directories \(the setting limit_checkout_files\)"
SIZE_MESSAGE = r"checks out to more than 1 MiB \(the setting limit_checkout_mib\)"
LIMITS = CheckoutLimits(size_bytes=1024**2, files=1_000)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as harness:
        yield harness


def workspaces_of(harness: WorkspaceHarness) -> Workspaces:
    return Workspaces(harness.root / "data/workspaces", harness.mirrors, limits=LIMITS)


@pytest.mark.parametrize(
    ("bomb", "message"),
    [
        # A billion files in 8 KiB of objects.
        ({"levels": 5, "width": 32}, FILES_MESSAGE),
        ({"levels": 1, "width": 8, "file_bytes": 100_000}, SIZE_MESSAGE),
    ],
)
async def test_a_bomb_is_refused_and_nothing_is_written(
    harness: WorkspaceHarness, bomb: dict[str, int], message: str
) -> None:
    commit = commit_tree_bomb(harness.origin.clone, **bomb)
    workspaces = workspaces_of(harness)
    assert await harness.head() == commit
    with pytest.raises(RepoUnavailable, match=message):
        async with workspaces.checkout(REPO, commit, owner_uid=None):
            pytest.fail("the bomb was checked out")
    with pytest.raises(RepoUnavailable, match=message):
        await read_commit_summary(harness.mirror, commit, LIMITS)
    await workspaces.wait_until_idle()
    written = list((harness.root / "data/workspaces").rglob("entry*"))
    assert written == []


async def test_an_ordinary_commit_is_checked_out(harness: WorkspaceHarness) -> None:
    commit = await harness.head()
    async with workspaces_of(harness).checkout(REPO, commit, owner_uid=None) as checkout:
        assert (checkout.tree / "README.md").exists()


async def test_the_index_reads_a_bomb_with_bounded_memory(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_MAX_LISTING_BYTES", 8 * 1024**2)
    monkeypatch.setattr(blocking, "_DIFF_MEMORY_BYTES", 64 * 1024**2)
    base = await harness.head()
    bomb = commit_tree_bomb(harness.origin.clone, levels=5, width=32)
    assert await harness.head() == bomb
    with pytest.raises(GitReadError, match="its list of files exceeds 8 MiB"):
        list_files(harness.mirror, bomb)
    with pytest.raises(GitReadError, match=r"[Oo]ut of memory"):
        read_changes(start_diff(harness.mirror, base, bomb))

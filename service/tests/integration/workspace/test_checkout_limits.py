"""Commits that are too large to check out are refused before anything is written."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.inventory.commit_summary import read_commit_summary
from agentjobs_runtime.files.copying import measure_tree
from agentjobs_runtime.git import blocking
from agentjobs_runtime.git.blocking import GitReadError, list_files
from agentjobs_runtime.mirrors import checkout_limits
from agentjobs_runtime.mirrors.checkout_limits import CheckoutLimits
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import DAMAGE_FILE
from agentjobs_worker.workspace.checkout import Workspaces
from tests.support.git_bombs import commit_attribute_bomb, commit_tree_bomb
from tests.support.workspace import REPO, WorkspaceHarness, workspace_harness

FILES_MESSAGE = r"more than 1000 files and directories \(the setting limit_checkout_files\)"
SIZE_MESSAGE = r"checks out to more than 1 MiB \(the setting limit_checkout_mib\)"
RATIO_MESSAGE = r"more than 50 times what the repository stores and more than 4 MiB; remove"
MIB = 1024**2
LIMITS = CheckoutLimits(size_bytes=MIB, files=1_000)
# 4 MiB whatever the repository stores.
RATIO_LIMITS = CheckoutLimits(size_bytes=64 * MIB)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as harness:
        yield harness


def workspaces_of(harness: WorkspaceHarness, limits: CheckoutLimits = LIMITS) -> Workspaces:
    return Workspaces(harness.root / "data/workspaces", harness.mirrors, limits=limits)


def disk_bytes(harness: WorkspaceHarness) -> int:
    return measure_tree(harness.root / "data/workspaces")[1]


@pytest.mark.parametrize(
    ("bomb", "limits", "message"),
    [
        # A billion files in 8 KiB of objects.
        ({"levels": 5, "width": 32}, LIMITS, FILES_MESSAGE),
        ({"levels": 1, "width": 8, "file_bytes": 100_000}, LIMITS, SIZE_MESSAGE),
        ({"levels": 1, "width": 8, "file_bytes": 100_000}, RATIO_LIMITS, RATIO_MESSAGE),
        # Files of one byte, each of which takes a block.
        ({"levels": 1, "width": 40}, RATIO_LIMITS, RATIO_MESSAGE),
    ],
)
async def test_a_bomb_is_refused_and_nothing_is_written(
    harness: WorkspaceHarness, bomb: dict[str, int], limits: CheckoutLimits, message: str
) -> None:
    commit = commit_tree_bomb(harness.origin.clone, **bomb)
    workspaces = workspaces_of(harness, limits)
    assert await harness.head() == commit
    with pytest.raises(RepoUnavailable, match=message):
        async with workspaces.checkout(REPO, commit, owner_uid=None):
            pytest.fail("the bomb was checked out")
    with pytest.raises(RepoUnavailable, match=message):
        await read_commit_summary(harness.mirror, commit, limits)
    await workspaces.wait_until_idle()
    written = list((harness.root / "data/workspaces").rglob("entry*"))
    assert written == []


async def test_a_tree_that_expands_much_has_no_copy_but_the_jobs(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_limits, "MAX_KEPT_BYTES", MIB, raising=False)
    bomb = commit_tree_bomb(harness.origin.clone, levels=1, width=8, file_bytes=50_000)
    workspaces = workspaces_of(harness, RATIO_LIMITS)
    assert await harness.head() == bomb
    for _ in range(2):
        async with workspaces.checkout(REPO, bomb, owner_uid=None) as checkout:
            tree_bytes = measure_tree(checkout.tree)[1]
            assert tree_bytes > 3 * MIB
            assert disk_bytes(harness) < tree_bytes + MIB // 2
        await workspaces.wait_until_idle()
        assert disk_bytes(harness) < MIB // 2


async def test_a_tree_in_proportion_to_its_repository_is_kept(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_limits, "MAX_KEPT_BYTES", MIB)
    commit = harness.origin.commit({"random.bin": os.urandom(6 * MIB)})
    workspaces = workspaces_of(harness, RATIO_LIMITS)
    assert await harness.head() == commit
    async with workspaces.checkout(REPO, commit, owner_uid=None):
        pass
    await workspaces.wait_until_idle()
    assert disk_bytes(harness) > 6 * MIB


async def test_attributes_cannot_expand_a_tree_beyond_its_limit(harness: WorkspaceHarness) -> None:
    # 2 MiB of files become 76 MiB.
    bomb = commit_attribute_bomb(harness.origin.clone, files=100, keywords=4_000)
    workspaces = workspaces_of(harness, RATIO_LIMITS)
    assert await harness.head() == bomb
    with pytest.raises(RepoUnavailable, match="git writes more than a checkout of this repository"):
        async with workspaces.checkout(REPO, bomb, owner_uid=None):
            pytest.fail("the bomb was checked out")
    assert disk_bytes(harness) < MIB // 2
    assert not (harness.mirror / DAMAGE_FILE).exists()


async def test_an_ordinary_commit_is_checked_out(harness: WorkspaceHarness) -> None:
    commit = await harness.head()
    async with workspaces_of(harness).checkout(REPO, commit, owner_uid=None) as checkout:
        assert (checkout.tree / "README.md").exists()


async def test_the_index_reads_a_bomb_with_bounded_memory(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_MAX_LISTING_BYTES", 8 * 1024**2)
    bomb = commit_tree_bomb(harness.origin.clone, levels=5, width=32)
    assert await harness.head() == bomb
    with pytest.raises(GitReadError, match="its list of files exceeds 8 MiB"):
        list_files(harness.mirror, bomb)

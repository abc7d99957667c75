"""The cache of checkouts stays within its limit and never drops what jobs use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_worker.workspace.checkout import Workspaces
from agentjobs_worker.workspace.commit import commit_changes
from tests.support.workspace import AUTHOR, WorkspaceHarness, run_git, workspace_harness

REPOS = ("repo_one", "repo_two", "repo_three")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        opened.origin.commit({"large": bytes(range(256)) * 4_000})
        yield opened


@contextmanager
def limited_workspaces(
    harness: WorkspaceHarness, max_bytes: int
) -> Iterator[tuple[Mirrors, Workspaces]]:
    mirrors = Mirrors(harness.root / "data/mirrors", recent_seconds=0)
    yield mirrors, Workspaces(harness.root / "data/workspaces", mirrors, cache_max_bytes=max_bytes)


async def use(
    harness: WorkspaceHarness, mirrors: Mirrors, workspaces: Workspaces, repo_id: str
) -> None:
    head = await mirrors.fetch_commit(repo_id, harness.remote, branch="main", known_head=None)
    async with workspaces.checkout(repo_id, head, owner_uid=None) as checkout:
        (checkout.tree / "new").touch()
        await commit_changes(mirrors.path(repo_id), checkout, "x", AUTHOR)
    await workspaces.wait_until_idle()


def spares(harness: WorkspaceHarness) -> tuple[set[str], set[str]]:
    """The repositories that have a mirror, and those that have a template."""
    mirrors = (harness.root / "data/mirrors").glob("*.git")
    templates = (harness.root / "data/workspaces/templates").glob("*/*")
    return {path.stem for path in mirrors}, {path.parent.name for path in templates}


async def test_the_least_recently_used_repository_is_dropped(harness: WorkspaceHarness) -> None:
    # About 1 MB each for the mirror, a template and a spare: two repositories fit, three do not.
    with limited_workspaces(harness, 5_000_000) as (mirrors, workspaces):
        for repo_id in REPOS:
            await use(harness, mirrors, workspaces, repo_id)
        in_mirrors, in_templates = spares(harness)
        assert REPOS[2] in in_mirrors & in_templates
        assert REPOS[0] not in in_templates
        await workspaces.close()


async def test_what_is_cached_of_a_deleted_repository_is_dropped(
    harness: WorkspaceHarness,
) -> None:
    with limited_workspaces(harness, 0) as (mirrors, workspaces):
        for repo_id in REPOS:
            await use(harness, mirrors, workspaces, repo_id)
        assert await workspaces.cached_repos() == set(REPOS)
        await workspaces.drop_repos({REPOS[0], "repo_unknown"})
        assert await workspaces.cached_repos() == set(REPOS[1:])
        assert spares(harness) == (set(REPOS[1:]), set(REPOS[1:]))
        await workspaces.close()


async def test_a_repository_above_the_limit_works_and_is_dropped_afterwards(
    harness: WorkspaceHarness,
) -> None:
    with limited_workspaces(harness, 1) as (mirrors, workspaces):
        for _ in range(2):
            await use(harness, mirrors, workspaces, REPOS[0])
            assert spares(harness) == (set(), set())
            assert workspaces._spares.spares == ()
        await workspaces.close()


async def test_the_cache_keeps_what_a_job_uses(harness: WorkspaceHarness) -> None:
    with limited_workspaces(harness, 1) as (mirrors, workspaces):
        head = await mirrors.fetch_commit(REPOS[0], harness.remote, branch="main", known_head=None)
        async with workspaces.checkout(REPOS[0], head, owner_uid=None) as checkout:
            await workspaces.trim_cache()
            assert spares(harness)[0] == {REPOS[0]}
            (checkout.tree / "new").touch()
            mirror = mirrors.path(REPOS[0])
            assert await commit_changes(mirror, checkout, "x", AUTHOR) is not None
        await workspaces.close()


async def test_a_recently_fetched_mirror_stays_until_its_job_uses_it(
    harness: WorkspaceHarness,
) -> None:
    mirrors = Mirrors(harness.root / "data/mirrors")
    workspaces = Workspaces(harness.root / "data/workspaces", mirrors, cache_max_bytes=1)
    head = await mirrors.fetch_commit(REPOS[0], harness.remote, branch="main", known_head=None)
    await workspaces.trim_cache()
    assert (
        await mirrors.fetch_commit(REPOS[0], harness.remote, branch="main", known_head=head) == head
    )
    assert run_git(mirrors.path(REPOS[0]), "cat-file", "-t", head) == "commit"
    await workspaces.close()


async def test_a_mirror_that_another_process_uses_stays(harness: WorkspaceHarness) -> None:
    with limited_workspaces(harness, 1) as (mirrors, workspaces):
        await mirrors.fetch_commit(REPOS[0], harness.remote, branch="main", known_head=None)
        elsewhere = Mirrors(harness.root / "data/mirrors")
        with elsewhere.in_use(REPOS[0]):
            await workspaces.trim_cache()
            assert spares(harness)[0] == {REPOS[0]}
        await workspaces.trim_cache()
        assert spares(harness)[0] == set()
        assert list((harness.root / "data/mirrors").glob("discarded-*")) == []
        await workspaces.close()


async def test_an_unlimited_cache_keeps_everything(harness: WorkspaceHarness) -> None:
    with limited_workspaces(harness, 0) as (mirrors, workspaces):
        for repo_id in REPOS:
            await use(harness, mirrors, workspaces, repo_id)
        await workspaces.trim_cache()
        assert spares(harness) == ({*REPOS}, {*REPOS})
        await workspaces.close()

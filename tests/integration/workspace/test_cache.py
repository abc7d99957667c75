"""The disk that checkouts take is bounded, and what jobs use is never taken from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors
from agentjobs.workspace.publish import commit_changes
from tests.support.workspace import AUTHOR, House, open_house, run_git

REPOS = ("repo_one", "repo_two", "repo_three")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        opened.origin.commit({"large": bytes(range(256)) * 4_000})
        yield opened


@contextmanager
def bounded(house: House, max_bytes: int) -> Iterator[tuple[Mirrors, Workspaces]]:
    mirrors = Mirrors(house.root / "data/mirrors", recent_seconds=0)
    yield mirrors, Workspaces(house.root / "data/workspaces", mirrors, cache_max_bytes=max_bytes)


async def use(house: House, mirrors: Mirrors, workspaces: Workspaces, repo_id: str) -> None:
    head = await mirrors.commit_of(repo_id, house.remote, branch="main", known_head=None)
    async with workspaces.checkout(repo_id, head, owner_uid=None) as checkout:
        (checkout.tree / "new").touch()
        await commit_changes(mirrors.path(repo_id), checkout, "x", AUTHOR)
    await workspaces.settle()


def kept(house: House) -> tuple[set[str], set[str]]:
    """The repositories that have a mirror, and those that have a template."""
    mirrors = (house.root / "data/mirrors").glob("*.git")
    templates = (house.root / "data/workspaces/templates").glob("*/*")
    return {path.stem for path in mirrors}, {path.parent.name for path in templates}


async def test_the_repository_used_longest_ago_makes_room(house: House) -> None:
    # About 1 MB of tree and as little in the mirror, a template and a spare: 2 fit, 3 do not.
    with bounded(house, 5_000_000) as (mirrors, workspaces):
        for repo_id in REPOS:
            await use(house, mirrors, workspaces, repo_id)
        in_mirrors, in_templates = kept(house)
        assert REPOS[2] in in_mirrors & in_templates
        assert REPOS[0] not in in_templates
        await workspaces.close()


async def test_a_repository_larger_than_the_bound_works_and_is_gone_afterwards(
    house: House,
) -> None:
    with bounded(house, 1) as (mirrors, workspaces):
        for _ in range(2):
            await use(house, mirrors, workspaces, REPOS[0])
            assert kept(house) == (set(), set())
            assert workspaces._spares.kept == ()
        await workspaces.close()


async def test_what_a_job_uses_stays_while_it_is_used(house: House) -> None:
    with bounded(house, 1) as (mirrors, workspaces):
        head = await mirrors.commit_of(REPOS[0], house.remote, branch="main", known_head=None)
        async with workspaces.checkout(REPOS[0], head, owner_uid=None) as checkout:
            await workspaces.tidy()
            assert kept(house)[0] == {REPOS[0]}
            (checkout.tree / "new").touch()
            mirror = mirrors.path(REPOS[0])
            assert await commit_changes(mirror, checkout, "x", AUTHOR) is not None
        await workspaces.close()


async def test_a_mirror_just_asked_for_stays_until_its_job_says_that_it_uses_it(
    house: House,
) -> None:
    mirrors = Mirrors(house.root / "data/mirrors")
    workspaces = Workspaces(house.root / "data/workspaces", mirrors, cache_max_bytes=1)
    head = await mirrors.commit_of(REPOS[0], house.remote, branch="main", known_head=None)
    await workspaces.tidy()
    assert await mirrors.commit_of(REPOS[0], house.remote, branch="main", known_head=head) == head
    assert run_git(mirrors.path(REPOS[0]), "cat-file", "-t", head) == "commit"
    await workspaces.close()


async def test_a_mirror_that_another_process_uses_stays(house: House) -> None:
    with bounded(house, 1) as (mirrors, workspaces):
        await mirrors.commit_of(REPOS[0], house.remote, branch="main", known_head=None)
        elsewhere = Mirrors(house.root / "data/mirrors")
        with elsewhere.in_use(REPOS[0]):
            await workspaces.tidy()
            assert kept(house)[0] == {REPOS[0]}
        await workspaces.tidy()
        assert kept(house)[0] == set()
        assert list((house.root / "data/mirrors").glob("discarded-*")) == []
        await workspaces.close()


async def test_without_a_bound_everything_is_kept(house: House) -> None:
    with bounded(house, 0) as (mirrors, workspaces):
        for repo_id in REPOS:
            await use(house, mirrors, workspaces, repo_id)
        await workspaces.tidy()
        assert kept(house) == ({*REPOS}, {*REPOS})
        await workspaces.close()

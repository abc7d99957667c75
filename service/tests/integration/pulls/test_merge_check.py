"""Whether pull requests can be merged, found with a real git and without a trace."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentjobs.local_git import merge_check as local
from agentjobs.pulls import merge_check
from agentjobs.pulls.comparison import find_tips
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.merge_check import MergeCheck, check_merge
from agentjobs.pulls.pulls import get_pull
from agentjobs.store.database import Database
from tests.support.local_repository import Platform, make_platform

HERE = ("acme", "acme/shop")


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    platform = await make_platform(database, tmp_path)
    await platform.open_pull("agentjobs/one", {"a": "1"})
    await platform.open_pull("agentjobs/two", {"a": "2", "b": "2"})
    return platform


async def check(platform: Platform, number: int) -> MergeCheck:
    return (await checks_at_once(platform, number, times=1))[0]


async def checks_at_once(platform: Platform, number: int, *, times: int) -> list[MergeCheck]:
    pull = await get_pull(platform.db, *HERE, number)
    tips = await find_tips(platform.git_dir, pull)
    root = platform.settings.repositories_path
    return await asyncio.gather(*(check_merge(root, pull, tips) for _ in range(times)))


def objects(platform: Platform) -> set[Path]:
    return set((platform.git_dir / "objects").rglob("*"))


async def test_a_merge_of_the_base_may_lead_to_conflicts(platform: Platform) -> None:
    before = objects(platform)
    assert await check(platform, 2) == MergeCheck(())
    assert objects(platform) == before
    await merge_pull(platform.db, platform.settings, *HERE, 1)
    assert await check(platform, 2) == MergeCheck(("a",))


async def test_an_unfinished_check_is_tried_again_after_a_pause(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(local, "_TIMEOUT_SECONDS", 0)
        assert await check(platform, 2) == MergeCheck(None)
    # Not with every page.
    assert await check(platform, 2) == MergeCheck(None)
    later = time.monotonic() + 61
    monkeypatch.setattr(merge_check, "time", SimpleNamespace(monotonic=lambda: later))
    # Of pages loaded at the same time, one tries.
    assert await checks_at_once(platform, 2, times=2) == [MergeCheck(()), MergeCheck(None)]
    assert await check(platform, 2) == MergeCheck(())

"""Whether pull requests can be merged, found with a real git and without a trace."""

from pathlib import Path

import pytest

from agentjobs.local_git import merge_check
from agentjobs.local_git.merge_check import find_conflicts
from agentjobs.pulls.comparison import find_tips
from agentjobs.pulls.merge import merge_pull
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


async def conflicts(platform: Platform, number: int) -> tuple[str, ...] | None:
    pull = await get_pull(platform.db, *HERE, number)
    tips = await find_tips(platform.git_dir, pull)
    return await find_conflicts(platform.git_dir, tips.base, tips.head)


def objects(platform: Platform) -> set[Path]:
    return set((platform.git_dir / "objects").rglob("*"))


async def test_a_merge_of_the_base_may_lead_to_conflicts(platform: Platform) -> None:
    before = objects(platform)
    assert await conflicts(platform, 2) == ()
    assert objects(platform) == before
    await merge_pull(platform.db, platform.settings, *HERE, 1)
    assert await conflicts(platform, 2) == ("a",)


async def test_a_check_that_takes_too_long_tells_nothing(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_check, "_TIMEOUT_SECONDS", 0)
    assert await conflicts(platform, 2) is None

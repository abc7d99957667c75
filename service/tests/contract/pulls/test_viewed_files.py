"""Marks of viewed files, on both stores."""

from pathlib import Path

import pytest

from agentjobs.pulls.pulls import Pull, get_pull
from agentjobs.pulls.viewed_files import RETENTION_MS, list_viewed, mark_viewed, prune_views
from agentjobs.store.database import Database
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from tests.support.local_repository import make_platform

OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
async def pulls(database: Database, tmp_path: Path) -> list[Pull]:
    platform = await make_platform(database, tmp_path)
    for number in (1, 2):
        await platform.open_pull(f"agentjobs/{number}", {"a": str(number)})
    return [await get_pull(database, "acme", "acme/shop", number) for number in (1, 2)]


async def test_a_mark_belongs_to_one_user_and_pull_request(
    database: Database, pulls: list[Pull]
) -> None:
    first, second = pulls
    await mark_viewed(database, first, "usr_1", "one", OLD)
    await mark_viewed(database, first, "usr_1", "two", OLD)
    await mark_viewed(database, first, "usr_1", "one", NEW)
    assert await list_viewed(database, first, "usr_1") == {"one": NEW, "two": OLD}
    assert await list_viewed(database, first, "usr_2") == {}
    assert await list_viewed(database, second, "usr_1") == {}
    for _ in range(2):
        await mark_viewed(database, first, "usr_1", "two", None)
        assert await list_viewed(database, first, "usr_1") == {"one": NEW}


async def test_a_version_has_the_form_of_an_object_name(
    database: Database, pulls: list[Pull]
) -> None:
    for blob_id in ("", "x", "A" * 40, "a" * 65):
        with pytest.raises(Problem):
            await mark_viewed(database, pulls[0], "usr_1", "one", blob_id)
    assert await list_viewed(database, pulls[0], "usr_1") == {}


async def test_marks_are_deleted_after_their_retention(
    database: Database, pulls: list[Pull]
) -> None:
    for key in ("one", "two"):
        await mark_viewed(database, pulls[0], "usr_1", key, OLD)
    assert await prune_views(database, now_ms() + RETENTION_MS - 60_000) == 0
    later = now_ms() + RETENTION_MS + 60_000
    assert await prune_views(database, later) == 2
    assert await prune_views(database, later) == 0
    assert await list_viewed(database, pulls[0], "usr_1") == {}

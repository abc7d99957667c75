"""Comments on lines and texts of reviews are handled once, on both stores; each kind has its own
cursor, and comments from before the cursor existed start nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.store.database import Database
from agentjobs_runtime.settings import load
from tests.support.platform_sync import SyncEnvironment, sync_environment
from tests.support.workspace import WorkspaceHarness, workspace_harness

COLUMNS = ("comment_seen", "line_comment_seen", "review_seen")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as workspace:
        yield workspace


@pytest.fixture
async def env(database: Database, tmp_path: Path, workspace: WorkspaceHarness) -> SyncEnvironment:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    env = await sync_environment(database, settings, workspace.remote)
    await env.connect()
    return env


async def cursors(env: SyncEnvironment, number: int = 1) -> list[int | None]:
    row = await env.pull(number)
    return [row[column] for column in COLUMNS]


async def test_kinds_with_the_same_ids_are_each_handled_once(env: SyncEnvironment) -> None:
    await env.open_pull(1)
    assert await cursors(env) == [0, 0, 0]
    env.post(1, 10, "review-text", "review")
    env.post(1, 10, "line-comment", "line")
    env.post(1, 10, "general")
    env.post(1, 9, "earlier-line", "line")
    for _ in range(2):
        await env.full_sync()
        assert env.answered_authors == ["general", "earlier-line", "line-comment", "review-text"]
        assert await cursors(env) == [10, 10, 10]
        env.restart()


async def test_a_failing_comment_does_not_block_other_kinds(env: SyncEnvironment) -> None:
    await env.open_pull(1)
    env.post(1, 10, "poison", "line")
    env.post(1, 11, "line-comment", "line")
    env.post(1, 10, "general")
    env.post(1, 10, "review-text", "review")
    env.platform.permission_faults["poison"] = ValueError("bug")
    for _ in range(2):
        row = await env.full_sync()
        assert "A comment on #1 was not handled" in row["sync_error"]
        # Later ones of its kind wait until it is skipped.
        assert env.answered_authors == ["general", "review-text"]
        assert await cursors(env) == [10, 0, 10]
    row = await env.sync()
    assert (row["sync_error"], await cursors(env)) == (None, [10, 11, 10])
    assert env.answered_authors == ["general", "review-text", "line-comment"]


async def test_comments_from_before_the_upgrade_start_nothing_and_later_ones_do(
    env: SyncEnvironment,
) -> None:
    await env.open_pull(1)
    await env.open_pull(2)
    # As the migration that added the columns left the rows of that time.
    await env.execute("UPDATE pulls SET line_comment_seen = NULL, review_seen = NULL")
    assert await cursors(env) == [0, None, None]
    await env.open_pull(3)
    for number in (1, 3):
        env.post(number, 5, f"general-{number}")
        env.post(number, 6, f"line-comment-{number}", "line")
        env.post(number, 7, f"review-text-{number}", "review")
    await env.full_sync()
    expected = ["general-1", "general-3", "line-comment-3", "review-text-3"]
    assert env.answered_authors == expected
    assert [await cursors(env, number) for number in (1, 2, 3)] == [[5, 6, 7], [0, 0, 0], [5, 6, 7]]
    env.post(1, 8, "new-line", "line")
    env.post(2, 1, "first-line", "line")
    env.post(2, 1, "first-review", "review")
    await env.full_sync()
    assert env.answered_authors == [*expected, "new-line", "first-line", "first-review"]

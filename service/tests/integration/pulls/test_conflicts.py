"""Conflicts with the base branch, resolved by a follow-up on a merge that marks them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.jobs.operations.conflict_follow_up import build_prompt
from agentjobs.local_git.merge_check import find_conflicts
from agentjobs.pulls.comparison import find_tips
from agentjobs.pulls.conflicts import mark_conflicts, remove_marks
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull, get_pull
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem
from tests.support.git_commands import git_output
from tests.support.local_repository import Platform, make_platform

HERE = ("acme", "acme/shop")


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    """Pull request 2 conflicts in one of its two files."""
    platform = await make_platform(database, tmp_path)
    await platform.open_pull("agentjobs/one", {"a": "1\n"})
    await platform.open_pull("agentjobs/two", {"a": "2\n", "b": "2\n"})
    await merge_pull(platform.db, platform.settings, *HERE, 1)
    return platform


async def test_a_marked_merge_ends_the_conflict_and_makes_a_draft(platform: Platform) -> None:
    before = await get_pull(platform.db, *HERE, 2)
    merge = await mark_conflicts(platform.db, platform.settings, before)
    assert merge.files == ("a",)
    marked = git_output("show", "agentjobs/two:a", cwd=platform.git_dir)
    assert [line[0] for line in marked.splitlines()] == ["<", "2", "=", "1", ">"]
    parents = git_output("log", "-1", "--format=%P", "agentjobs/two", cwd=platform.git_dir)
    main = git_output("rev-parse", "main", cwd=platform.git_dir)
    assert parents.split() == [before.head_commit, main]
    pull = await get_pull(platform.db, *HERE, 2)
    assert (pull.draft, pull.head_commit) == (True, merge.commit)
    tips = await find_tips(platform.git_dir, pull)
    assert await find_conflicts(platform.git_dir, tips.base, tips.head) == ()
    with pytest.raises(Problem, match="no conflicts any more"):
        await mark_conflicts(platform.db, platform.settings, pull)
    await remove_marks(platform.db, platform.settings, before, merge)
    assert await get_pull(platform.db, *HERE, 2) == before


async def test_commits_pushed_meanwhile_are_kept(platform: Platform) -> None:
    before = await get_pull(platform.db, *HERE, 2)
    merge = await mark_conflicts(platform.db, platform.settings, before)
    git_output("update-ref", "refs/heads/agentjobs/two", before.head_commit, cwd=platform.git_dir)
    with pytest.raises(Problem) as refused:
        await remove_marks(platform.db, platform.settings, before, merge)
    assert refused.value.code == "pull_changed"


async def test_a_merge_that_waited_for_the_marks_is_refused(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await get_pull(platform.db, *HERE, 2)
    main = git_output("rev-parse", "main", cwd=platform.git_dir)

    @asynccontextmanager
    async def wait_for_marks(db: Database, repo_id: str) -> AsyncIterator[None]:
        await mark_conflicts(platform.db, platform.settings, before)
        async with changing_repository(db, repo_id):
            yield

    monkeypatch.setattr("agentjobs.pulls.merge.changing_repository", wait_for_marks)
    with pytest.raises(Problem, match="is a draft"):
        await merge_pull(platform.db, platform.settings, *HERE, 2)
    assert git_output("rev-parse", "main", cwd=platform.git_dir) == main


async def test_a_pull_request_that_was_closed_during_the_wait_gets_no_marks(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await get_pull(platform.db, *HERE, 2)

    @asynccontextmanager
    async def wait_for_close(db: Database, repo_id: str) -> AsyncIterator[None]:
        await close_pull(platform.db, *HERE, 2)
        async with changing_repository(db, repo_id):
            yield

    monkeypatch.setattr("agentjobs.pulls.conflicts.changing_repository", wait_for_close)
    with pytest.raises(Problem):
        await mark_conflicts(platform.db, platform.settings, before)
    assert platform.head("agentjobs/two") == before.head_commit


async def test_it_is_a_draft_before_the_branch_has_marks(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, drafts = await get_pull(platform.db, *HERE, 2), []

    async def push_meanwhile(*_: object) -> None:
        drafts.append((await get_pull(platform.db, *HERE, 2)).draft)
        raise Problem("pull_changed", "Somebody has just pushed to the branch.")

    monkeypatch.setattr("agentjobs.pulls.conflicts._move", push_meanwhile)
    with pytest.raises(Problem, match="just pushed"):
        await mark_conflicts(platform.db, platform.settings, before)
    assert drafts == [True]
    assert await get_pull(platform.db, *HERE, 2) == before


async def test_the_prompt_about_many_conflicts_names_some_of_the_files(platform: Platform) -> None:
    pull = await get_pull(platform.db, *HERE, 2)
    assert "- a\n- b\n\n" in build_prompt(pull, ("a", "b"))
    prompt = build_prompt(pull, tuple(f"{number:03}{'é' * 500}" for number in range(100)))
    assert len(prompt.encode()) < 16 * 1024
    assert "- 000é" in prompt
    assert "- and 93 more\n" in prompt

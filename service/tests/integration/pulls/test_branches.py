"""Branches of finished work are removed, and those that somebody needs stay."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.branches import BranchRemoval, JobBranch
from agentjobs.pulls import branches
from agentjobs.pulls.branches import (
    BranchPull,
    BranchUse,
    close_and_remove_branch,
    plan_removal,
    sweep_branches,
)
from agentjobs.pulls.comparison import load_proposal
from agentjobs.pulls.maintenance import tidy_repositories
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from tests.support.git_commands import git_output
from tests.support.local_repository import Platform, make_platform

HERE = ("acme", "acme/shop")
BRANCH = "agentjobs/fixer/one"


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    return await make_platform(database, tmp_path)


def _branches(platform: Platform) -> set[str]:
    listed = git_output(
        "for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=platform.git_dir
    )
    return set(listed.split()) - {"main"}


async def _sweep(platform: Platform) -> set[str]:
    await sweep_branches(platform.db, platform.settings.repositories_path)
    return _branches(platform)


async def test_the_branch_of_a_merged_pull_request_is_removed(platform: Platform) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number)
    assert _branches(platform) == set()
    proposal = await load_proposal(platform.settings.repositories_path, pull)
    assert [file.path for file in proposal.diff.files] == ["a"]


async def test_a_closed_pull_request_keeps_its_commits_without_its_branch(
    platform: Platform,
) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    pull = await close_and_remove_branch(platform.db, platform.settings, *HERE, number)
    assert _branches(platform) == set()
    git_output("gc", "--quiet", "--prune=now", cwd=platform.git_dir)
    proposal = await load_proposal(platform.settings.repositories_path, pull)
    assert [file.path for file in proposal.diff.files] == ["a"]


async def test_branches_stay_if_the_operator_wants_them(platform: Platform) -> None:
    settings = msgspec.structs.replace(platform.settings, delete_branches=False)
    number = await platform.open_pull(BRANCH, {"a": "1"})
    await merge_pull(platform.db, settings, *HERE, number)
    assert _branches(platform) == {BRANCH}


async def test_a_branch_of_people_stays(platform: Platform) -> None:
    number = await platform.open_pull("feature", {"a": "1"})
    await merge_pull(platform.db, platform.settings, *HERE, number)
    assert await _sweep(platform) == {"feature"}


async def test_a_sweep_removes_what_was_left_behind(platform: Platform) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    await platform.open_pull("agentjobs/fixer/open", {"b": "1"})
    platform.propose("agentjobs/fixer/cancelled", {"c": "1"}, "Change\n\nJob: job_gone\n")
    platform.propose("agentjobs/fixer/by-hand", {"d": "1"}, "Committed by a person")
    await close_pull(platform.db, *HERE, number)
    assert await _sweep(platform) == {"agentjobs/fixer/open", "agentjobs/fixer/by-hand"}


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_branch_that_a_job_works_on_stays(platform: Platform, status: str) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    await platform.job_credential(BRANCH, status=status)
    await merge_pull(platform.db, platform.settings, *HERE, number)
    assert await _sweep(platform) == {BRANCH}

    async def finish(tx: Transaction) -> None:
        await tx.execute("UPDATE jobs SET status = 'completed'")
        await tx.execute("DELETE FROM job_queue")

    await platform.db.transact(finish)
    assert await _sweep(platform) == set()


async def test_the_branch_of_a_job_that_was_cancelled_after_its_push_is_removed_soon(
    platform: Platform,
) -> None:
    await platform.job_credential(BRANCH)
    job = await platform.db.fetch_one("SELECT id FROM jobs")
    assert job is not None
    platform.propose(BRANCH, {"a": "1"}, f"Change\n\nJob: {job['id']}\n")
    root = platform.settings.repositories_path
    await sweep_branches(platform.db, root, only_cancelled=True)
    assert _branches(platform) == {BRANCH}

    async def cancel(tx: Transaction, completed_at: int) -> None:
        await tx.execute(
            "UPDATE jobs SET status = 'cancelled', completed_at = :at", at=completed_at
        )
        await tx.execute("DELETE FROM job_queue")

    await platform.db.transact(cancel, 1)
    await sweep_branches(platform.db, root, only_cancelled=True)
    # The sweep of all repositories has had its turn since.
    assert _branches(platform) == {BRANCH}
    await platform.db.transact(cancel, now_ms())
    await sweep_branches(platform.db, root, only_cancelled=True)
    assert _branches(platform) == set()


async def test_a_branch_stays_if_a_job_was_created_for_it_while_its_removal_waited(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    await close_pull(platform.db, *HERE, number)

    @asynccontextmanager
    async def wait(db: Database, repo_id: str) -> AsyncIterator[None]:
        async with changing_repository(db, repo_id):
            await platform.job_credential(BRANCH, status="queued")
            yield

    monkeypatch.setattr(branches, "changing_repository", wait)
    assert await _sweep(platform) == {BRANCH}


async def test_a_branch_that_was_pushed_to_after_the_merge_stays(platform: Platform) -> None:
    number = await platform.open_pull(BRANCH, {"a": "1"})
    settings = msgspec.structs.replace(platform.settings, delete_branches=False)
    await merge_pull(platform.db, settings, *HERE, number)
    platform.propose(BRANCH, {"a": "2"})
    assert await _sweep(platform) == {BRANCH}


async def test_maintenance_packs_refs(platform: Platform) -> None:
    platform.propose(BRANCH, {"a": "1"})
    await tidy_repositories(platform.db, platform.settings.repositories_path)
    assert BRANCH in (platform.git_dir / "packed-refs").read_text()
    assert _branches(platform) == {BRANCH}


async def test_maintenance_removes_locks_that_a_killed_git_left_behind(platform: Platform) -> None:
    platform.propose(BRANCH, {"a": "1"})
    stale, fresh = (platform.git_dir / f"refs/heads/{name}.lock" for name in ("main", "other"))
    for lock in (stale, fresh, platform.git_dir / "packed-refs.lock"):
        lock.touch()
    for lock in (stale, platform.git_dir / "packed-refs.lock"):
        os.utime(lock, (0, 0))
    await tidy_repositories(platform.db, platform.settings.repositories_path)
    assert not stale.exists()
    assert fresh.exists()
    assert BRANCH in (platform.git_dir / "packed-refs").read_text()


async def test_maintenance_removes_unfinished_packs_of_a_killed_push(platform: Platform) -> None:
    objects = platform.git_dir / "objects"
    stale, fresh = objects / "tmp_objdir-incoming-stale", objects / "tmp_objdir-incoming-fresh"
    pack = objects / "pack" / "tmp_pack_stale"
    for quarantine in (stale, fresh):
        (quarantine / "pack").mkdir(parents=True)
        (quarantine / "pack" / "tmp_pack_x").write_bytes(b"PACK")
    pack.parent.mkdir(exist_ok=True)
    pack.write_bytes(b"PACK")
    for path in (stale, pack):
        os.utime(path, (0, 0))
    await tidy_repositories(platform.db, platform.settings.repositories_path)
    assert not stale.exists()
    assert not pack.exists()
    assert fresh.exists()


def test_a_branch_that_an_open_pull_request_is_based_on_stays() -> None:
    branch = JobBranch(BRANCH, "c1", "job_1")
    merged = {BRANCH: BranchPull(1, "merged", "c1")}
    assert plan_removal(branch, BranchUse(merged, frozenset({BRANCH}), frozenset())) is None
    free = BranchUse(merged, frozenset(), frozenset())
    assert plan_removal(branch, free) == BranchRemoval(branch)
    closed = BranchUse({BRANCH: BranchPull(1, "closed", "c1")}, frozenset(), frozenset())
    assert plan_removal(branch, closed) == BranchRemoval(branch, 1)
    unfinished = BranchUse({}, frozenset(), frozenset({"job_1"}))
    assert plan_removal(branch, unfinished) is None

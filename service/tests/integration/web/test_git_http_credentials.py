"""Permissions over git and what a push records, on both database engines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.pulls.pulls import get_pull
from agentjobs.store.database import Database, Transaction
from agentjobs.web.git import routes
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.mirrors.publish import branch_head, push
from tests.support.git_commands import commit_files, git_output
from tests.support.git_server import GitServer, serving
from tests.support.local_repository import holds_credential, make_platform

BRANCH = "agentjobs/fixer/0123456789ab"


@pytest.fixture
async def server(database: Database, tmp_path: Path) -> AsyncIterator[GitServer]:
    platform = await make_platform(database, tmp_path)
    async with serving(platform, tmp_path) as running:
        yield running


async def test_another_organization_sees_no_repository(server: GitServer) -> None:
    plans = Plans(server.platform.settings.plans)
    await create_organization(server.platform.db, plans, "other", "pro")
    key = await server.platform.key("other", git_write=True)
    for name in ("acme/acme/shop", "other/acme/shop", "acme/acme/missing", "nobody/acme/shop"):
        process = await server.git("ls-remote", server.repository(key, name))
        assert process.exit_code != 0
        assert "not found" in process.output


async def test_a_key_with_git_write_pushes_and_the_store_records_it(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    with server.platform.db.changes.listen("index") as changes:
        commit = commit_files(clone, {"new.txt": "1"}, "pushed")
        process = await server.git("push", "-q", "origin", "main", cwd=clone)
        assert process.exit_code == 0, process.output
        # Recorded before the client gets its response: a job created now runs on the new commit.
        row = await server.platform.repo_row()
        assert row["head_commit"] == commit
        assert row["index_due_at"] is not None
        assert await changes.wait(30)


async def test_a_job_reads_and_writes_its_own_branch(server: GitServer) -> None:
    clone = await server.clone(await server.platform.job_credential(BRANCH))
    for content in ("1", "2"):
        git_output("checkout", "-q", "-B", "work", "origin/main", cwd=clone)
        commit = commit_files(clone, {"new.txt": content}, "work")
        process = await server.git(
            "push", "--force", "origin", f"{commit}:refs/heads/{BRANCH}", cwd=clone
        )
        assert process.exit_code == 0, process.output
        assert server.platform.head(BRANCH) == commit


async def test_a_worker_fetches_and_pushes_with_the_forges_remote(server: GitServer) -> None:
    platform = server.platform
    adapter = LocalPlatform(platform.db, server.url, "https://jobs.example", holds_credential)
    credential = await platform.job_credential(BRANCH)
    mirrors = Mirrors(server.directory / "mirrors")
    repo_id = platform.repo.repo_id
    mirror = mirrors.path(repo_id)
    async with adapter.open_remote(platform.repo, credential) as remote:
        commit = await mirrors.fetch_commit(repo_id, remote, branch="main", known_head=None)
        assert commit == platform.head()
        await push(mirror, commit, BRANCH, remote, expected=None)
        assert await branch_head(remote, BRANCH) == commit
        with pytest.raises(PushRejected, match="this job may write only"):
            await push(mirror, commit, "another-branch", remote, expected=None)


@pytest.mark.parametrize(
    ("status", "lease_ms"),
    [("running", -1), ("completed", 60_000), ("failed", 60_000), ("cancelled", 60_000)],
)
async def test_the_credential_of_a_finished_job_is_refused(
    server: GitServer, status: str, lease_ms: int
) -> None:
    credential = await server.platform.job_credential(BRANCH, status=status, lease_ms=lease_ms)
    process = await server.git("ls-remote", server.repository(credential))
    assert process.exit_code != 0
    assert "Authentication failed" in process.output


async def _cancel(tx: Transaction) -> None:
    await tx.execute("UPDATE jobs SET status = 'cancelled'")
    await tx.execute("DELETE FROM job_queue")


async def _request_cancel(tx: Transaction) -> None:
    await tx.execute("UPDATE jobs SET cancel_requested_at = 1")


async def _take_over(tx: Transaction) -> None:
    await tx.execute("UPDATE job_queue SET fence = fence + 1, credential_hash = NULL")


async def _revoke_keys(tx: Transaction) -> None:
    await tx.execute("UPDATE api_keys SET revoked_at = 1")
    await tx.invalidate("keys")


async def _disconnect(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1")
    await tx.invalidate("repos")


@pytest.mark.parametrize(
    ("end", "is_job"),
    [
        (_cancel, True),
        (_request_cancel, True),
        (_take_over, True),
        (_revoke_keys, False),
        (_disconnect, False),
    ],
)
async def test_a_push_that_is_no_longer_allowed_after_its_wait_changes_nothing(
    server: GitServer,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Transaction], Coroutine[Any, Any, None]],
    *,
    is_job: bool,
) -> None:
    platform = server.platform
    token = await (platform.job_credential(BRANCH) if is_job else platform.key(git_write=True))
    clone = await server.clone(token)
    commit = commit_files(clone, {"new.txt": "1"}, "work")
    is_waiting = asyncio.Event()

    def announce_wait(db: Database, repo_id: str) -> AbstractAsyncContextManager[None]:
        is_waiting.set()
        return changing_repository(db, repo_id)

    monkeypatch.setattr(routes, "changing_repository", announce_wait)
    async with changing_repository(platform.db, platform.repo.repo_id):
        push = asyncio.create_task(
            server.git("push", "origin", f"{commit}:refs/heads/{BRANCH}", cwd=clone)
        )
        await is_waiting.wait()
        await platform.db.transact(end)
    assert (await push).exit_code != 0
    assert BRANCH not in git_output("branch", "--list", cwd=platform.git_dir)


async def test_a_job_sees_no_other_repository(server: GitServer) -> None:
    other = await make_platform(server.platform.db, server.directory / "more", "other")
    credential = await other.job_credential(BRANCH)
    process = await server.git("ls-remote", server.repository(credential))
    assert process.exit_code != 0
    assert "not found" in process.output


async def test_a_push_to_the_branch_of_a_pull_request_updates_it(server: GitServer) -> None:
    number = await server.platform.open_pull("agentjobs/one", {"a": "1"})
    clone = await server.clone(
        await server.platform.key(git_write=True), "clone", "--branch=agentjobs/one"
    )
    commit = commit_files(clone, {"a": "2"}, "more")
    process = await server.git("push", "-q", "origin", "agentjobs/one", cwd=clone)
    assert process.exit_code == 0, process.output
    pull = await get_pull(server.platform.db, "acme", "acme/shop", number)
    assert pull.head_commit == commit

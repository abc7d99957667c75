"""Pushes to the repositories of an organization that takes too much disk space are refused."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from agentjobs.repos import disk_quota
from agentjobs.repos.disk_quota import RepositoryQuota
from agentjobs.store.opening import open_database
from agentjobs.web.git.push_commands import pkt_line
from tests.support.git_commands import commit_files, git_output
from tests.support.git_server import GitServer, serving, until
from tests.support.local_repository import make_platform

BRANCH = "agentjobs/fixer/0123456789ab"
MIB = 1024**2
MESSAGE = (
    "The repositories of this organization take more disk space than 1 MiB. The operator can purge"
    " some of them or raise limit_organization_disk_mib."
)


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[GitServer]:
    """One whose organizations may have 1 MiB."""
    db = await open_database(sqlite_url, migrate=False)
    platform = await make_platform(db, tmp_path)
    settings = msgspec.structs.replace(
        platform.settings, limit_organization_disk_mib=1, git_concurrency=1
    )
    platform = dataclasses.replace(platform, settings=settings)
    async with serving(platform, tmp_path) as running:
        yield running
    await db.close()


def fill(server: GitServer) -> None:
    (server.platform.git_dir / "objects" / "filler").write_bytes(os.urandom(MIB))


async def test_above_the_quota_a_push_is_refused_and_git_says_why(server: GitServer) -> None:
    fill(server)
    clone = await server.clone(await server.platform.key(git_write=True))
    commit_files(clone, {"new.txt": "1"}, "new")
    head = server.platform.head()
    pushed = await server.git("push", "origin", "main", cwd=clone)
    assert pushed.exit_code != 0
    assert MESSAGE in pushed.output
    assert server.platform.head() == head


async def test_repositories_that_were_disconnected_count(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    old = await server.platform.repo_row()
    old_files = server.platform.git_dir.with_name("repo_old.git")
    old_files.mkdir()
    (old_files / "filler").write_bytes(os.urandom(MIB))
    await server.platform.db.transact(
        lambda tx: tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, created_at, disconnected_at)"
            " VALUES ('repo_old', :organization_id, 'acme/old', 'local', '', 'main', :head, 1, 1)",
            organization_id=old["organization_id"],
            head=old["head_commit"],
        )
    )
    commit_files(clone, {"new.txt": "1"}, "new")
    pushed = await server.git("push", "origin", "main", cwd=clone)
    assert MESSAGE in pushed.output


async def test_what_was_pushed_counts_at_once(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    commit_files(clone, {"random.bin": os.urandom(MIB)}, "large")
    pushed = await server.git("push", "origin", "main", cwd=clone)
    assert pushed.exit_code == 0, pushed.output
    commit_files(clone, {"new.txt": "1"}, "small")
    pushed = await server.git("push", "origin", "main", cwd=clone)
    assert MESSAGE in pushed.output


async def test_a_small_push_that_git_completes_with_large_objects_is_measured_soon(
    server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_quota, "_SOON_SECONDS", 0, raising=False)
    clone = await server.clone(await server.platform.key(git_write=True))
    content = os.urandom(600 * 1024)
    for _ in range(2):
        # Git sends the second one as a difference, and stores both.
        content += b"."
        commit_files(clone, {"random.bin": content}, "change")
        pushed = await server.git("push", "origin", "main", cwd=clone)
        assert pushed.exit_code == 0, pushed.output
    commit_files(clone, {"new.txt": "1"}, "small")
    pushed = await server.git("push", "origin", "main", cwd=clone)
    assert MESSAGE in pushed.output


async def test_above_the_quota_branches_can_be_deleted_and_jobs_and_others_push(
    server: GitServer, tmp_path: Path
) -> None:
    fill(server)
    git_output("branch", "old", "main", cwd=server.platform.git_dir)
    clone = await server.clone(await server.platform.key(git_write=True))
    refused = await server.git("push", "origin", "main:new", cwd=clone)
    assert MESSAGE in refused.output
    deleted = await server.git("push", "origin", ":old", cwd=clone)
    assert deleted.exit_code == 0, deleted.output

    credential = await server.platform.job_credential(BRANCH)
    commit_files(clone, {"work.txt": "1"}, "work")
    url = server.repository(credential)
    pushed = await server.git("push", url, f"HEAD:refs/heads/{BRANCH}", cwd=clone)
    assert pushed.exit_code == 0, pushed.output

    other = await make_platform(server.platform.db, tmp_path, "other")
    url = server.repository(await other.key("other", git_write=True), "other/other/shop")
    pushed = await server.git("push", "--force", url, "HEAD:main", cwd=clone)
    assert pushed.exit_code == 0, pushed.output


async def test_a_push_that_waited_while_another_took_the_quota_is_refused(
    server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []
    check = RepositoryQuota.check

    async def counted(quota: RepositoryQuota, organization_id: str) -> int:
        checks.append(organization_id)
        return await check(quota, organization_id)

    monkeypatch.setattr(RepositoryQuota, "check", counted)
    both_checked = asyncio.Event()
    opening = pkt_line(b"0" * 40 + b" " + b"a" * 40 + b" refs/heads/x\0report-status") + b"0000"

    async def large_push() -> AsyncIterator[bytes]:
        yield opening
        await both_checked.wait()
        yield bytes(MIB)

    async with httpx.AsyncClient(
        base_url=server.url,
        auth=("me", await server.platform.key(git_write=True)),
        headers={"Content-Type": "application/x-git-receive-pack-request"},
    ) as client:
        path = "/git/acme/acme/shop.git/git-receive-pack"
        first = asyncio.create_task(client.post(path, content=large_push()))
        await until(lambda: len(checks) == 1)
        # The first one occupies the only slot.
        second = asyncio.create_task(client.post(path, content=opening))
        await until(lambda: len(checks) == 2)
        both_checked.set()
        assert (await first).status_code == 200
        response = await second
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "disk_quota_exceeded"
    assert response.json()["error"]["message"] == MESSAGE

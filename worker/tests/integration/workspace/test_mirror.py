"""Mirrors: when they fetch, what they return, and how damaged ones are replaced."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.mirrors.errors import BaseBranchMissing, RepoUnavailable
from agentjobs_runtime.mirrors.mirror import Mirrors
from tests.support.workspace import REPO, WorkspaceHarness, run_git, workspace_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened


async def test_the_first_job_fetches_and_later_ones_use_the_known_head(
    harness: WorkspaceHarness,
) -> None:
    head = harness.origin.head("main")
    seen = []
    for _ in range(3):
        commit = await harness.mirrors.fetch_commit(
            REPO, harness.remote, branch="main", known_head=head
        )
        assert commit == head
        seen.append(len(harness.server.requests))
    assert 0 < seen[0] == seen[1] == seen[2]


async def test_another_process_finds_the_mirror_on_disk(harness: WorkspaceHarness) -> None:
    head = await harness.head()
    harness.server.requests.clear()
    other = Mirrors(harness.mirror.parent)
    fetched = await other.fetch_commit(REPO, harness.remote, branch="main", known_head=head)
    assert (fetched, harness.server.requests) == (head, [])


async def test_without_a_known_head_the_branch_is_fetched_again(harness: WorkspaceHarness) -> None:
    first = await harness.head()
    second = harness.origin.commit({"new.txt": b"1\n"})
    assert await harness.head() == second != first


async def test_a_head_the_mirror_lacks_is_fetched(harness: WorkspaceHarness) -> None:
    await harness.head()
    second = harness.origin.commit({"new.txt": b"1\n"})
    fetched = await harness.mirrors.fetch_commit(
        REPO, harness.remote, branch="main", known_head=second
    )
    assert fetched == second


async def test_a_mirror_whose_creation_was_killed_is_created_again(
    harness: WorkspaceHarness,
) -> None:
    for leftover in (harness.mirror, harness.mirror.parent / f"incoming-{REPO}"):
        (leftover / "refs").mkdir(parents=True)
        (leftover / "HEAD.lock").write_text("ref: refs/heads/main\n")
    assert await harness.head() == harness.origin.head("main")


def unpack_objects(mirror: Path) -> None:
    (pack,) = (mirror / "objects" / "pack").glob("*.pack")
    content = pack.read_bytes()
    shutil.rmtree(pack.parent)
    subprocess.run(["git", "unpack-objects", "-q"], cwd=mirror, input=content, check=True)


async def test_a_commit_of_a_killed_fetch_is_fetched_again(harness: WorkspaceHarness) -> None:
    head = await harness.head()
    # The ref is written last. Earlier versions stored objects one after the other.
    unpack_objects(harness.mirror)
    for ref in run_git(harness.mirror, "for-each-ref", "--format=%(refname)").split():
        run_git(harness.mirror, "update-ref", "-d", ref)
    (blob, *_) = run_git(harness.mirror, "ls-tree", "--object-only", "-r", head).split()
    (harness.mirror / "objects" / blob[:2] / blob[2:]).unlink()
    mirrors = Mirrors(harness.mirror.parent)
    fetched = await mirrors.fetch_commit(REPO, harness.remote, branch="main", known_head=head)
    assert fetched == head
    run_git(harness.mirror, "cat-file", "-e", blob)


async def test_rewritten_history_is_followed(harness: WorkspaceHarness) -> None:
    await harness.head()
    run_git(harness.origin.clone, "commit", "-q", "--amend", "-m", "rewritten")
    rewritten = harness.origin.commit_as_is()
    assert await harness.head() == rewritten


async def test_a_branch_can_be_replaced_by_one_below_its_name(harness: WorkspaceHarness) -> None:
    harness.origin.commit({"a": b"1\n"}, branch="topic")
    await harness.head("topic")
    run_git(harness.origin.bare, "branch", "-D", "topic")
    deeper = harness.origin.commit({"b": b"1\n"}, branch="topic/deeper")
    assert await harness.head("topic/deeper") == deeper


@pytest.mark.parametrize("branch", ["missing", "main:refs/heads/x", "--upload-pack=x", "a b", ""])
async def test_a_missing_branch_is_named(harness: WorkspaceHarness, branch: str) -> None:
    with pytest.raises(BaseBranchMissing, match="no branch"):
        await harness.head(branch)


async def test_only_the_requested_branch_is_fetched(harness: WorkspaceHarness) -> None:
    other = harness.origin.commit({"a": b"1\n"}, branch="agentjobs/lint-fixer/1")
    await harness.head()
    assert run_git(harness.mirror, "cat-file", "-t", other, check=False) == ""


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/x.git", "file:///", "ext::sh -c touch% /tmp/agentjobs-x"]
)
async def test_an_unreachable_repository_is_unavailable(
    harness: WorkspaceHarness, address: str
) -> None:
    with pytest.raises(RepoUnavailable):
        await harness.mirrors.fetch_commit(REPO, Remote(address), branch="main", known_head=None)


async def test_an_unwritable_directory_makes_the_repository_unavailable(
    harness: WorkspaceHarness,
) -> None:
    (harness.root / "file").touch()
    mirrors = Mirrors(harness.root / "file" / "mirrors")
    with pytest.raises(RepoUnavailable, match="cannot be stored"):
        await mirrors.fetch_commit(REPO, harness.remote, branch="main", known_head=None)


async def test_a_redirect_is_not_followed(harness: WorkspaceHarness) -> None:
    harness.server.redirects_to = "http://127.0.0.1:1"
    with pytest.raises(RepoUnavailable, match="302"):
        await harness.head()


async def test_the_credential_is_sent_to_the_server_and_never_written_to_disk(
    harness: WorkspaceHarness,
) -> None:
    harness.server.required_authorization = "Basic c2VzYW1lOm9wZW4="
    with pytest.raises(RepoUnavailable):
        await harness.head()
    remote = Remote(harness.remote.url, "Basic c2VzYW1lOm9wZW4=")
    await harness.mirrors.fetch_commit(REPO, remote, branch="main", known_head=None)
    written = [path for path in harness.mirror.rglob("*") if path.is_file()]
    assert written
    assert not any(b"c2VzYW1l" in path.read_bytes() for path in written)


async def test_many_jobs_at_once_on_a_new_repository_share_one_fetch(
    harness: WorkspaceHarness,
) -> None:
    head = harness.origin.head("main")
    commits = await asyncio.gather(
        *(
            harness.mirrors.fetch_commit(REPO, harness.remote, branch="main", known_head=head)
            for _ in range(8)
        )
    )
    assert set(commits) == {head}
    assert len([line for line in harness.server.requests if line.startswith("GET")]) == 1


async def test_several_processes_may_fetch_the_same_repository(harness: WorkspaceHarness) -> None:
    others = [Mirrors(harness.mirror.parent) for _ in range(4)]
    commits = await asyncio.gather(
        *(
            mirrors.fetch_commit(REPO, harness.remote, branch="main", known_head=None)
            for mirrors in others
        )
    )
    assert set(commits) == {harness.origin.head("main")}


async def test_a_damaged_mirror_is_fetched_again(harness: WorkspaceHarness) -> None:
    await harness.head()
    for path in (harness.mirror / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"")
    second = harness.origin.commit({"new.txt": b"1\n"})
    other = Mirrors(harness.mirror.parent)
    assert await other.fetch_commit(REPO, harness.remote, branch="main", known_head=None) == second


async def test_a_deleted_mirror_is_fetched_again(harness: WorkspaceHarness) -> None:
    head = await harness.head()
    shutil.rmtree(harness.mirror)
    fetched = await harness.mirrors.fetch_commit(
        REPO, harness.remote, branch="main", known_head=head
    )
    assert fetched == head
    assert harness.mirror.exists()


async def test_other_users_cannot_read_a_mirror(harness: WorkspaceHarness) -> None:
    async with harness.checkout():
        for name in ("mirrors", "workspaces", "workspaces/sessions"):
            assert (harness.root / "data" / name).stat().st_mode & 0o077 == 0


async def test_leftovers_of_a_killed_fetch_do_not_block_the_next(harness: WorkspaceHarness) -> None:
    await harness.head()
    for ref in (harness.mirror / "refs" / "bases").iterdir():
        ref.with_name(f"{ref.name}.lock").touch()
    second = harness.origin.commit({"new.txt": b"1\n"})
    assert await harness.head() == second


async def test_garbage_collection_removes_leftovers_and_keeps_what_branches_need(
    harness: WorkspaceHarness,
) -> None:
    head = await harness.head()
    leftovers = [harness.mirror / "incoming-old", harness.mirror / "objects/pack/tmp_pack_old"]
    for path in (harness.mirror / "incoming-new", *leftovers):
        path.mkdir()
    for path in leftovers:
        hours_ago = time.time() - 3 * 3_600
        os.utime(path, (hours_ago, hours_ago))
    await harness.mirrors.collect_garbage()
    assert not any(path.exists() for path in leftovers)
    assert run_git(harness.mirror, "fsck", "--full") == ""
    fetched = await harness.mirrors.fetch_commit(
        REPO, harness.remote, branch="main", known_head=head
    )
    assert fetched == head
    assert (harness.mirror / "incoming-new").exists()


def test_an_identifier_that_would_leave_the_directory_is_refused(harness: WorkspaceHarness) -> None:
    for repo_id in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(ValueError, match="not a repository id"):
            harness.mirrors.path(repo_id)


async def test_a_fetch_stays_packed(harness: WorkspaceHarness) -> None:
    await harness.head()
    assert run_git(harness.mirror, "count-objects") == "0 objects, 0 kilobytes"


async def test_the_size_of_a_mirror_includes_the_objects_of_jobs(harness: WorkspaceHarness) -> None:
    await harness.head()
    for number in range(256):
        (harness.mirror / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    async with harness.checkout() as checkout:
        (before,) = await harness.mirrors.items()
        (checkout.tree / "random.bin").write_bytes(os.urandom(500_000))
        assert await harness.commit(checkout) is not None
    (after,) = await harness.mirrors.items()
    assert after.size_bytes - before.size_bytes > 500_000

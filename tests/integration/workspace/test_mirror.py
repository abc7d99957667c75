"""Mirrors: when they fetch, what they answer, and how they mend themselves."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.git.remote import Remote
from agentjobs.workspace.errors import BaseBranchMissing, RepoUnavailable
from agentjobs.workspace.mirror import Mirrors
from tests.support.workspace import REPO, House, open_house, run_git


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


async def test_the_first_job_fetches_and_the_next_ones_find_the_known_head(house: House) -> None:
    head = house.origin.head("main")
    seen = []
    for _ in range(3):
        commit = await house.mirrors.commit_of(REPO, house.remote, branch="main", known_head=head)
        assert commit == head
        seen.append(len(house.server.requests))
    assert 0 < seen[0] == seen[1] == seen[2]


async def test_another_process_finds_the_mirror_on_disk(house: House) -> None:
    head = await house.head()
    house.server.requests.clear()
    other = Mirrors(house.mirror.parent)
    found = await other.commit_of(REPO, house.remote, branch="main", known_head=head)
    assert (found, house.server.requests) == (head, [])


async def test_without_a_known_head_the_branch_is_read_anew(house: House) -> None:
    first = await house.head()
    second = house.origin.commit({"new.txt": b"1\n"})
    assert await house.head() == second != first


async def test_a_head_the_mirror_lacks_is_fetched(house: House) -> None:
    await house.head()
    second = house.origin.commit({"new.txt": b"1\n"})
    found = await house.mirrors.commit_of(REPO, house.remote, branch="main", known_head=second)
    assert found == second


async def test_history_that_was_rewritten_is_followed(house: House) -> None:
    await house.head()
    run_git(house.origin.clone, "commit", "-q", "--amend", "-m", "rewritten")
    rewritten = house.origin.commit_as_is()
    assert await house.head() == rewritten


async def test_a_branch_may_give_way_to_one_below_its_name(house: House) -> None:
    house.origin.commit({"a": b"1\n"}, branch="topic")
    await house.head("topic")
    run_git(house.origin.bare, "branch", "-D", "topic")
    deeper = house.origin.commit({"b": b"1\n"}, branch="topic/deeper")
    assert await house.head("topic/deeper") == deeper


@pytest.mark.parametrize("branch", ["missing", "main:refs/heads/x", "--upload-pack=x", "a b", ""])
async def test_a_branch_that_is_not_there_is_named(house: House, branch: str) -> None:
    with pytest.raises(BaseBranchMissing, match="no branch"):
        await house.head(branch)


async def test_only_the_branch_that_was_asked_for_is_fetched(house: House) -> None:
    other = house.origin.commit({"a": b"1\n"}, branch="agentjobs/lint-fixer/1")
    await house.head()
    assert run_git(house.mirror, "cat-file", "-t", other, check=False) == ""


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/x.git", "file:///", "ext::sh -c touch% /tmp/agentjobs-x"]
)
async def test_a_repository_out_of_reach_is_unavailable(house: House, address: str) -> None:
    with pytest.raises(RepoUnavailable):
        await house.mirrors.commit_of(REPO, Remote(address), branch="main", known_head=None)


async def test_a_place_that_cannot_be_written_is_unavailable(house: House) -> None:
    (house.root / "file").touch()
    mirrors = Mirrors(house.root / "file" / "mirrors")
    with pytest.raises(RepoUnavailable, match="cannot be stored"):
        await mirrors.commit_of(REPO, house.remote, branch="main", known_head=None)


async def test_a_redirect_is_not_followed(house: House) -> None:
    house.server.redirects_to = "http://127.0.0.1:1"
    with pytest.raises(RepoUnavailable, match="302"):
        await house.head()


async def test_the_credential_is_shown_to_the_server_and_never_written_down(house: House) -> None:
    house.server.required_authorization = "Basic c2VzYW1lOm9wZW4="
    with pytest.raises(RepoUnavailable):
        await house.head()
    remote = Remote(house.remote.url, "Basic c2VzYW1lOm9wZW4=")
    await house.mirrors.commit_of(REPO, remote, branch="main", known_head=None)
    written = [path for path in house.mirror.rglob("*") if path.is_file()]
    assert written
    assert not any(b"c2VzYW1l" in path.read_bytes() for path in written)


async def test_many_jobs_at_once_on_a_new_repository_share_one_fetch(house: House) -> None:
    head = house.origin.head("main")
    commits = await asyncio.gather(
        *(
            house.mirrors.commit_of(REPO, house.remote, branch="main", known_head=head)
            for _ in range(8)
        )
    )
    assert set(commits) == {head}
    assert len([line for line in house.server.requests if line.startswith("GET")]) == 1


async def test_several_processes_may_fetch_the_same_repository(house: House) -> None:
    others = [Mirrors(house.mirror.parent) for _ in range(4)]
    commits = await asyncio.gather(
        *(each.commit_of(REPO, house.remote, branch="main", known_head=None) for each in others)
    )
    assert set(commits) == {house.origin.head("main")}


async def test_a_damaged_mirror_is_fetched_anew(house: House) -> None:
    await house.head()
    for path in (house.mirror / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"")
    second = house.origin.commit({"new.txt": b"1\n"})
    other = Mirrors(house.mirror.parent)
    assert await other.commit_of(REPO, house.remote, branch="main", known_head=None) == second


async def test_a_mirror_that_was_deleted_is_fetched_anew(house: House) -> None:
    head = await house.head()
    shutil.rmtree(house.mirror)
    found = await house.mirrors.commit_of(REPO, house.remote, branch="main", known_head=head)
    assert found == head
    assert house.mirror.exists()


async def test_others_on_the_machine_cannot_look_in(house: House) -> None:
    async with house.checkout():
        for name in ("mirrors", "workspaces", "workspaces/sessions"):
            assert (house.root / "data" / name).stat().st_mode & 0o077 == 0


async def test_what_a_killed_fetch_left_does_not_stop_the_next(house: House) -> None:
    await house.head()
    for ref in (house.mirror / "refs" / "bases").iterdir():
        ref.with_name(f"{ref.name}.lock").touch()
    second = house.origin.commit({"new.txt": b"1\n"})
    assert await house.head() == second


async def test_tidying_keeps_what_branches_need(house: House) -> None:
    head = await house.head()
    (house.mirror / "incoming-new").mkdir()
    await house.mirrors.tidy()
    assert run_git(house.mirror, "fsck", "--full") == ""
    found = await house.mirrors.commit_of(REPO, house.remote, branch="main", known_head=head)
    assert found == head
    assert (house.mirror / "incoming-new").exists()


def test_an_identifier_that_would_leave_the_directory_is_refused(house: House) -> None:
    for repo_id in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(ValueError, match="not a repository id"):
            house.mirrors.path(repo_id)

"""Committing and pushing what an ordinary agent changed."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.git.identity import Identity
from agentjobs.git.remote import Remote
from agentjobs.workspace.errors import PushRejected, RepoUnavailable, UnsafeChange
from agentjobs.workspace.publish import branch_head, commit_changes, push
from tests.support.workspace import AUTHOR, REPO, House, open_house, run_git

BRANCH = "agentjobs/lint-fixer/0123"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


async def test_what_changed_is_committed_on_the_base(house: House) -> None:
    async with house.checkout() as checkout:
        tree = checkout.tree
        (tree / "src/app.py").write_text("print('better')\n")
        (tree / "src/run.sh").unlink()
        (tree / "new/deep").mkdir(parents=True)
        (tree / "new/deep/tool").write_text("#!/bin/sh\n")
        (tree / "new/deep/tool").chmod(0o755)
        (tree / "build").mkdir()
        (tree / "build/ignored").touch()
        (tree / "debug.log").touch()
        commit = await house.commit(checkout)
        assert commit is not None
        assert house.changed(commit) == [
            "A 100755 new/deep/tool",
            "D 000000 src/run.sh",
            "M 100644 src/app.py",
        ]
        assert run_git(house.mirror, "rev-parse", f"{commit}^@") == checkout.commit
        assert run_git(house.mirror, "fsck", "--strict", commit) == ""


async def test_message_author_and_committer_are_as_asked(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "new").touch()
        commit = await commit_changes(
            house.mirror,
            checkout,
            "Title ü\n\nBody\0 \ud800\n\nJob: job_1\nAgent: lint-fixer\n",
            Identity("Ada <b>", "ada@example.org"),
            Identity("Service", "service@example.org"),
        )
        assert commit is not None
    shown = run_git(house.mirror, "show", "-s", "--format=%an|%ae|%cn|%ce|%B", commit)
    who, _, message = shown.rpartition("|")
    assert who == "Ada b|ada@example.org|Service|service@example.org"
    assert message == "Title ü\n\nBody ?\n\nJob: job_1\nAgent: lint-fixer\n".rstrip("\n")
    trailers = run_git(house.mirror, "show", "-s", "--format=%(trailers)", commit)
    assert trailers.split("\n")[:2] == ["Job: job_1", "Agent: lint-fixer"]


async def test_nothing_changed_is_no_commit_and_leaves_no_object(house: House) -> None:
    async with house.checkout() as checkout:
        before = run_git(house.mirror, "count-objects", "-v")
        (checkout.tree / "debug.log").write_text("ignored")
        (checkout.tree / "README.md").touch()
        run_git(checkout.tree, "commit", "-q", "--allow-empty", "-m", "a commit is no change")
        assert await house.commit(checkout) is None
        assert run_git(house.mirror, "count-objects", "-v") == before


async def test_an_agent_that_committed_by_itself_loses_nothing(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "README.md").write_text("changed\n")
        run_git(checkout.tree, "commit", "-q", "-a", "-m", "mine")
        shutil.rmtree(checkout.tree / ".git")
        commit = await house.commit(checkout)
        assert commit is not None
        assert house.changed(commit) == ["M 100644 README.md"]
        assert run_git(house.mirror, "show", "-s", "--format=%s", commit) == "Improve it"


async def test_a_change_of_the_executable_bit_is_a_change(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "README.md").chmod(0o755)
        commit = await house.commit(checkout)
        assert commit is not None
        assert house.changed(commit) == ["M 100755 README.md"]


async def test_a_change_of_the_same_size_under_the_old_date_is_seen(house: House) -> None:
    async with house.checkout() as checkout:
        path = checkout.tree / "src/app.py"
        before = path.stat()
        path.write_text("print('HELLO')\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        for _ in range(2):
            commit = await house.commit(checkout)
            assert commit is not None
            assert house.changed(commit) == ["M 100644 src/app.py"]
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_file_may_become_a_directory_and_a_directory_a_file(house: House) -> None:
    async with house.checkout() as checkout:
        shutil.rmtree(checkout.tree / "src")
        (checkout.tree / "src").write_text("a file now\n")
        (checkout.tree / "README.md").unlink()
        (checkout.tree / "README.md").mkdir()
        (checkout.tree / "README.md/inside").touch()
        commit = await house.commit(checkout)
        assert commit is not None
        assert "A 100644 README.md/inside" in house.changed(commit)
        assert "A 100644 src" in house.changed(commit)


async def test_everything_may_be_deleted(house: House) -> None:
    async with house.checkout() as checkout:
        for path in checkout.tree.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        commit = await house.commit(checkout)
        assert commit is not None
        assert run_git(house.mirror, "ls-tree", commit) == ""


async def test_line_endings_follow_the_repository_in_touched_files_only(house: House) -> None:
    house.origin.commit({"kept.txt": b"one\r\n", "old.txt": b"one\r\n"})
    house.origin.commit({".gitattributes": b"*.txt text\n"})
    async with house.checkout() as checkout:
        (checkout.tree / "old.txt").write_bytes(b"two\r\n")
        commit = await house.commit(checkout)
        assert commit is not None
        assert house.changed(commit) == ["M 100644 old.txt"]
        assert run_git(house.mirror, "show", f"{commit}:old.txt") == "two"


async def test_existing_submodules_stay_and_may_be_removed(house: House) -> None:
    clone = house.origin.clone
    run_git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (clone / "module").mkdir()
    house.origin.commit_as_is()
    async with house.checkout() as checkout:
        (checkout.tree / "module/file").touch()
        assert await house.commit(checkout) is None
        shutil.rmtree(checkout.tree / "module")
        commit = await house.commit(checkout)
        assert commit is not None
        assert house.changed(commit) == ["D 000000 module"]


async def test_a_data_directory_of_any_name_works(tmp_path: Path) -> None:
    with open_house(tmp_path / 'da:ta "dir" ü;#') as house:
        async with house.checkout() as checkout:
            (checkout.tree / "new").touch()
            commit = await house.commit(checkout)
            assert commit is not None
            assert house.changed(commit) == ["A 100644 new"]


async def test_a_mirror_that_vanished_is_unavailable_and_not_a_traceback(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "new").touch()
        shutil.rmtree(house.mirror)
        with pytest.raises(RepoUnavailable):
            await house.commit(checkout)


async def test_a_mirror_that_breaks_under_a_job_is_mended_for_the_next(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "new").touch()
        for path in (house.mirror / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"")
        with pytest.raises(RepoUnavailable):
            await house.commit(checkout)
        head = await house.mirrors.commit_of(
            REPO, house.remote, branch="main", known_head=checkout.commit
        )
        assert head == checkout.commit
        assert await house.commit(checkout) is not None


async def committed(house: House, text: str = "new\n") -> str:
    async with house.checkout() as checkout:
        (checkout.tree / "new").write_text(text)
        commit = await house.commit(checkout)
        assert commit is not None
        return commit


async def test_a_commit_is_pushed_to_its_branch_and_found_again(house: House) -> None:
    commit = await committed(house)
    assert await branch_head(house.remote, BRANCH) is None
    await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    assert house.origin.head(BRANCH) == commit
    assert await branch_head(house.remote, BRANCH) == commit
    await push(house.mirror, commit, BRANCH, house.remote, expected=commit)


async def test_a_branch_at_the_expected_commit_is_replaced(house: House) -> None:
    first, second = await committed(house), await committed(house, "other\n")
    await push(house.mirror, first, BRANCH, house.remote, expected=None)
    await push(house.mirror, second, BRANCH, house.remote, expected=first)
    assert house.origin.head(BRANCH) == second


async def test_a_branch_that_somebody_else_wrote_is_not_replaced(house: House) -> None:
    foreign = house.origin.commit({"theirs": b"1\n"}, branch=BRANCH)
    commit = await committed(house)
    for expected in (None, commit):
        with pytest.raises(PushRejected, match="stale info"):
            await push(house.mirror, commit, BRANCH, house.remote, expected=expected)
    assert house.origin.head(BRANCH) == foreign


async def test_a_refusal_of_the_other_side_is_told_in_its_words(house: House) -> None:
    commit = await committed(house)
    hook = house.origin.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no agents on \033[31mFridays' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushRejected) as caught:
        await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    assert "hook declined" in str(caught.value)
    assert "no agents on ?[31mFridays" in str(caught.value)


async def test_a_push_that_is_not_allowed_is_rejected_and_a_silent_server_unavailable(
    house: House,
) -> None:
    commit = await committed(house)
    house.server.forbids_pushes = True
    with pytest.raises(PushRejected, match="403"):
        await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    nowhere = Remote("http://127.0.0.1:1/x.git")
    with pytest.raises(RepoUnavailable):
        await push(house.mirror, commit, BRANCH, nowhere, expected=None)
    with pytest.raises(RepoUnavailable):
        await branch_head(nowhere, BRANCH)


async def test_a_push_that_breaks_off_half_way_is_told_apart_from_a_refusal(house: House) -> None:
    commit = await committed(house)
    for status, expected in ((403, PushRejected), (500, RepoUnavailable)):
        house.server.status_of_posts = status
        with pytest.raises(expected, match=str(status)):
            await push(house.mirror, commit, BRANCH, house.remote, expected=None)


async def test_the_push_credential_reaches_the_server_and_no_file(house: House) -> None:
    commit = await committed(house)
    house.server.required_authorization = "Basic c2VzYW1lOm9wZW4="
    with pytest.raises(PushRejected):
        await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    remote = Remote(house.remote.url, "Basic c2VzYW1lOm9wZW4=")
    await push(house.mirror, commit, BRANCH, remote, expected=None)
    assert house.origin.head(BRANCH) == commit
    files = [path for path in (house.root / "data").rglob("*") if path.is_file()]
    assert not any(b"c2VzYW1l" in path.read_bytes() for path in files)


async def test_a_push_of_megabytes_goes_through(house: House) -> None:
    async with house.checkout() as checkout:
        (checkout.tree / "random.bin").write_bytes(os.urandom(5_000_000))
        commit = await house.commit(checkout)
        assert commit is not None
    await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    assert house.origin.head(BRANCH) == commit


async def test_hooks_of_the_mirror_do_nothing(house: House) -> None:
    commit = await committed(house)
    canary = house.root / "canary"
    hooks = house.mirror / "hooks"
    hooks.mkdir()
    (hooks / "pre-push").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (hooks / "pre-push").chmod(0o755)
    await push(house.mirror, commit, BRANCH, house.remote, expected=None)
    assert not canary.exists()


async def test_a_name_that_is_no_branch_is_not_pushed(house: House) -> None:
    commit = await committed(house)
    for name in ("a:refs/heads/main", "--mirror", ""):
        with pytest.raises(PushRejected, match="not a branch name"):
            await push(house.mirror, commit, name, house.remote, expected=None)
        assert await branch_head(house.remote, name) is None


async def test_a_refused_change_leaves_no_object_in_the_mirror(house: House) -> None:
    async with house.checkout() as checkout:
        before = run_git(house.mirror, "count-objects", "-v")
        (checkout.tree / "Jenkinsfile").write_bytes(os.urandom(1_000_000))
        with pytest.raises(UnsafeChange):
            await commit_changes(house.mirror, checkout, "x", AUTHOR)
        assert run_git(house.mirror, "count-objects", "-v") == before
        assert list(house.mirror.glob("incoming-*")) == []

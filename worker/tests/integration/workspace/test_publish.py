"""Committing and pushing what an ordinary agent changed."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.mirrors.errors import PushRejected, RepoUnavailable, UnsafeChange
from agentjobs_runtime.mirrors.publish import branch_head, push
from agentjobs_worker.workspace.commit import commit_changes
from tests.support.child_processes import descendants_of
from tests.support.workspace import AUTHOR, REPO, WorkspaceHarness, run_git, workspace_harness

BRANCH = "agentjobs/lint-fixer/0123"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened


async def test_changes_are_committed_on_top_of_the_base(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        tree = checkout.tree
        (tree / "src/app.py").write_text("print('better')\n")
        (tree / "src/run.sh").unlink()
        (tree / "new/deep").mkdir(parents=True)
        (tree / "new/deep/tool").write_text("#!/bin/sh\n")
        (tree / "new/deep/tool").chmod(0o755)
        (tree / "build").mkdir()
        (tree / "build/ignored").touch()
        (tree / "debug.log").touch()
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == [
            "A 100755 new/deep/tool",
            "D 000000 src/run.sh",
            "M 100644 src/app.py",
        ]
        assert run_git(harness.mirror, "rev-parse", f"{commit}^@") == checkout.commit
        assert run_git(harness.mirror, "fsck", "--strict", commit) == ""


async def test_a_commit_has_the_given_message_author_and_committer(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "new").touch()
        commit = await commit_changes(
            harness.mirror,
            checkout,
            "Title ü\n\nBody\0 \ud800\n\nJob: job_1\nAgent: lint-fixer\n",
            Identity("Ada <b>", "ada@example.org"),
            Identity("Service", "service@example.org"),
        )
        assert commit is not None
    shown = run_git(harness.mirror, "show", "-s", "--format=%an|%ae|%cn|%ce|%B", commit)
    who, _, message = shown.rpartition("|")
    assert who == "Ada b|ada@example.org|Service|service@example.org"
    assert message == "Title ü\n\nBody ?\n\nJob: job_1\nAgent: lint-fixer\n".rstrip("\n")
    trailers = run_git(harness.mirror, "show", "-s", "--format=%(trailers)", commit)
    assert trailers.split("\n")[:2] == ["Job: job_1", "Agent: lint-fixer"]


async def test_without_changes_there_is_no_commit_and_no_object(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        before = run_git(harness.mirror, "count-objects", "-v")
        (checkout.tree / "debug.log").write_text("ignored")
        (checkout.tree / "README.md").touch()
        run_git(checkout.tree, "commit", "-q", "--allow-empty", "-m", "a commit is no change")
        assert await harness.commit(checkout) is None
        assert run_git(harness.mirror, "count-objects", "-v") == before


async def test_changes_that_the_agent_committed_itself_are_kept(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "README.md").write_text("changed\n")
        run_git(checkout.tree, "commit", "-q", "-a", "-m", "mine")
        shutil.rmtree(checkout.tree / ".git")
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == ["M 100644 README.md"]
        assert run_git(harness.mirror, "show", "-s", "--format=%s", commit) == "Improve it"


async def test_a_changed_executable_bit_is_a_change(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "README.md").chmod(0o755)
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == ["M 100755 README.md"]


async def test_a_change_with_the_same_size_and_date_is_detected(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        path = checkout.tree / "src/app.py"
        before = path.stat()
        path.write_text("print('HELLO')\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        for _ in range(2):
            commit = await harness.commit(checkout)
            assert commit is not None
            assert harness.changed(commit) == ["M 100644 src/app.py"]
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_file_may_become_a_directory_and_a_directory_a_file(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        shutil.rmtree(checkout.tree / "src")
        (checkout.tree / "src").write_text("a file now\n")
        (checkout.tree / "README.md").unlink()
        (checkout.tree / "README.md").mkdir()
        (checkout.tree / "README.md/inside").touch()
        commit = await harness.commit(checkout)
        assert commit is not None
        assert "A 100644 README.md/inside" in harness.changed(commit)
        assert "A 100644 src" in harness.changed(commit)


async def test_everything_may_be_deleted(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        for path in checkout.tree.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        commit = await harness.commit(checkout)
        assert commit is not None
        assert run_git(harness.mirror, "ls-tree", commit) == ""


async def test_line_endings_follow_the_repository_in_touched_files_only(
    harness: WorkspaceHarness,
) -> None:
    harness.origin.commit({"kept.txt": b"one\r\n", "old.txt": b"one\r\n"})
    harness.origin.commit({".gitattributes": b"*.txt text\n"})
    async with harness.checkout() as checkout:
        (checkout.tree / "old.txt").write_bytes(b"two\r\n")
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == ["M 100644 old.txt"]
        assert run_git(harness.mirror, "show", f"{commit}:old.txt") == "two"


async def test_existing_submodules_stay_and_may_be_removed(harness: WorkspaceHarness) -> None:
    clone = harness.origin.clone
    run_git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (clone / "module").mkdir()
    harness.origin.commit_as_is()
    async with harness.checkout() as checkout:
        (checkout.tree / "module/file").touch()
        assert await harness.commit(checkout) is None
        shutil.rmtree(checkout.tree / "module")
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == ["D 000000 module"]


async def test_a_data_directory_may_have_any_name(tmp_path: Path) -> None:
    with workspace_harness(tmp_path / 'da:ta "dir" ü;#') as harness:
        async with harness.checkout() as checkout:
            (checkout.tree / "new").touch()
            commit = await harness.commit(checkout)
            assert commit is not None
            assert harness.changed(commit) == ["A 100644 new"]


async def test_a_missing_mirror_is_reported_as_unavailable(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "new").touch()
        shutil.rmtree(harness.mirror)
        with pytest.raises(RepoUnavailable):
            await harness.commit(checkout)


async def test_a_mirror_damaged_during_a_job_is_replaced_for_the_next(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "new").touch()
        for path in (harness.mirror / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"")
        with pytest.raises(RepoUnavailable):
            await harness.commit(checkout)
        head = await harness.mirrors.fetch_commit(
            REPO, harness.remote, branch="main", known_head=checkout.commit
        )
        assert head == checkout.commit
        assert await harness.commit(checkout) is not None


async def commit_file(harness: WorkspaceHarness, text: str = "new\n") -> str:
    async with harness.checkout() as checkout:
        (checkout.tree / "new").write_text(text)
        commit = await harness.commit(checkout)
        assert commit is not None
        return commit


async def test_a_commit_is_pushed_to_its_branch_and_found_again(harness: WorkspaceHarness) -> None:
    commit = await commit_file(harness)
    assert await branch_head(harness.remote, BRANCH) is None
    await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    assert harness.origin.head(BRANCH) == commit
    assert await branch_head(harness.remote, BRANCH) == commit
    await push(harness.mirror, commit, BRANCH, harness.remote, expected=commit)


async def test_a_branch_at_the_expected_commit_is_replaced(harness: WorkspaceHarness) -> None:
    first, second = await commit_file(harness), await commit_file(harness, "other\n")
    await push(harness.mirror, first, BRANCH, harness.remote, expected=None)
    await push(harness.mirror, second, BRANCH, harness.remote, expected=first)
    assert harness.origin.head(BRANCH) == second


async def test_a_branch_changed_by_others_is_not_replaced(harness: WorkspaceHarness) -> None:
    foreign = harness.origin.commit({"theirs": b"1\n"}, branch=BRANCH)
    commit = await commit_file(harness)
    for expected in (None, commit):
        with pytest.raises(PushRejected, match="stale info"):
            await push(harness.mirror, commit, BRANCH, harness.remote, expected=expected)
    assert harness.origin.head(BRANCH) == foreign


async def test_a_refused_push_reports_the_remotes_reason(harness: WorkspaceHarness) -> None:
    commit = await commit_file(harness)
    hook = harness.origin.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no agents on \033[31mFridays' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushRejected) as caught:
        await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    assert "hook declined" in str(caught.value)
    assert "no agents on ?[31mFridays" in str(caught.value)


async def test_a_forbidden_push_is_rejected_and_a_silent_server_is_unavailable(
    harness: WorkspaceHarness,
) -> None:
    commit = await commit_file(harness)
    harness.server.forbids_pushes = True
    with pytest.raises(PushRejected, match="403"):
        await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    # A credential that is so new may be accepted a moment later.
    fresh = replace(harness.remote, is_fresh=True)
    with pytest.raises(RepoUnavailable, match="403") as caught:
        await push(harness.mirror, commit, BRANCH, fresh, expected=None)
    assert caught.value.is_temporary
    nowhere = Remote("http://127.0.0.1:1/x.git")
    with pytest.raises(RepoUnavailable):
        await push(harness.mirror, commit, BRANCH, nowhere, expected=None)
    with pytest.raises(RepoUnavailable):
        await branch_head(nowhere, BRANCH)


async def test_an_interrupted_push_differs_from_a_refused_one(harness: WorkspaceHarness) -> None:
    commit = await commit_file(harness)
    for status, expected in ((403, PushRejected), (413, PushRejected), (500, RepoUnavailable)):
        harness.server.status_of_posts = status
        with pytest.raises(expected, match=str(status)):
            await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)


async def test_the_push_credential_reaches_the_server_and_no_file(
    harness: WorkspaceHarness,
) -> None:
    commit = await commit_file(harness)
    harness.server.required_authorization = "Basic c2VzYW1lOm9wZW4="
    with pytest.raises(PushRejected):
        await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    remote = Remote(harness.remote.url, "Basic c2VzYW1lOm9wZW4=")
    await push(harness.mirror, commit, BRANCH, remote, expected=None)
    assert harness.origin.head(BRANCH) == commit
    files = [path for path in (harness.root / "data").rglob("*") if path.is_file()]
    assert not any(b"c2VzYW1l" in path.read_bytes() for path in files)


async def test_a_push_of_megabytes_succeeds(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "random.bin").write_bytes(os.urandom(5_000_000))
        commit = await harness.commit(checkout)
        assert commit is not None
    await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    assert harness.origin.head(BRANCH) == commit


async def test_hooks_of_the_mirror_do_not_run(harness: WorkspaceHarness) -> None:
    commit = await commit_file(harness)
    canary = harness.root / "canary"
    hooks = harness.mirror / "hooks"
    hooks.mkdir()
    (hooks / "pre-push").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (hooks / "pre-push").chmod(0o755)
    await push(harness.mirror, commit, BRANCH, harness.remote, expected=None)
    assert not canary.exists()


async def test_an_invalid_branch_name_is_not_pushed(harness: WorkspaceHarness) -> None:
    commit = await commit_file(harness)
    for name in ("a:refs/heads/main", "--mirror", ""):
        with pytest.raises(PushRejected, match="not a branch name"):
            await push(harness.mirror, commit, name, harness.remote, expected=None)
        assert await branch_head(harness.remote, name) is None


async def test_a_refused_change_leaves_no_object_in_the_mirror(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        before = run_git(harness.mirror, "count-objects", "-v")
        (checkout.tree / "Jenkinsfile").write_bytes(os.urandom(1_000_000))
        with pytest.raises(UnsafeChange):
            await commit_changes(harness.mirror, checkout, "x", AUTHOR)
        assert run_git(harness.mirror, "count-objects", "-v") == before
        assert list(harness.mirror.glob("incoming-*")) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Shells start programs in the background with SIGINT ignored, and git would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("program", ["ls-remote", "remote-http"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_retry_may_succeed_after_git_was_killed(
    number: signal.Signals, program: str
) -> None:
    """By the kernel, because other processes took the memory, or with Ctrl-C in a terminal."""
    url, connections = "", []

    async def kill(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        for pid in descendants_of(os.getpid()):
            # Other processes of the tests may have ended meanwhile.
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_text()
                if url in command and program in command:
                    os.kill(pid, number)

    async with await asyncio.start_server(kill, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x.git"
        with pytest.raises(RepoUnavailable) as raised:
            await branch_head(Remote(url), "main")
        for connection in connections:
            connection.close()
            await connection.wait_closed()
    assert raised.value.is_temporary, raised.value
    assert "timed out" not in str(raised.value)

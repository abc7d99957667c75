"""Checkouts: what the agent gets, that copies are independent, and that nothing is left."""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs_runtime.files.copying import IN_PROCESS_ENTRIES
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_worker.workspace.checkout import Workspaces
from agentjobs_worker.workspace.spares import MAX_SPARES
from tests.support.workspace import FILES, REPO, WorkspaceHarness, run_git, workspace_harness

SOME_UID = 900_001


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened


async def left_over(harness: WorkspaceHarness) -> list[Path]:
    """Directories in the sessions that no job or spare uses."""
    await harness.workspaces.wait_until_idle()
    spares = {spare.directory for spare in harness.workspaces._spares.spares}
    sessions = (harness.root / "data/workspaces/sessions").iterdir()
    return [path for session in sessions for path in session.iterdir() if path not in spares]


async def test_a_checkout_is_the_commit_with_a_disposable_git_directory(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        tree = checkout.tree
        assert checkout.commit == harness.origin.head("main")
        assert {name: (tree / name).read_bytes() for name in FILES} == FILES
        assert os.access(tree / "src/run.sh", os.X_OK)
        assert run_git(tree, "status", "--porcelain") == ""
        assert run_git(tree, "rev-list", "--all") == checkout.commit
        assert run_git(tree, "remote") == ""
        assert not (tree / ".git/objects/info/alternates").exists()
        assert not (tree / ".git/hooks").exists()
        assert run_git(tree, "fsck", "--full") == ""
        (tree / "README.md").write_text("changed\n")
        run_git(tree, "commit", "-q", "-a", "-m", "an agent may commit")
    assert await left_over(harness) == []


async def test_a_small_checkout_moves_into_a_directory_that_exists_already(
    harness: WorkspaceHarness,
) -> None:
    head = await harness.head()
    owner = SOME_UID if os.geteuid() == 0 else None
    for _ in ("built", "spare"):
        directory = harness.workspaces.create_directory()
        inode = (directory / "tree").stat().st_ino
        async with harness.workspaces.checkout(
            REPO, head, owner_uid=owner, into=directory
        ) as checkout:
            assert checkout.tree == directory / "tree"
            assert checkout.tree.stat().st_ino == inode
            (checkout.tree / "README.md").write_text("changed\n")
            commit = await harness.commit(checkout)
            assert commit is not None
            assert harness.changed(commit) == ["M 100644 README.md"]
            if owner is not None:
                assert {path.lstat().st_uid for path in checkout.tree.rglob("*")} == {owner}
                assert checkout.tree.stat().st_uid == owner
        await harness.workspaces.remove_directory(directory)
        assert await left_over(harness) == []


async def test_a_large_checkout_does_not_move(harness: WorkspaceHarness) -> None:
    files = {f"many/{number}": b"" for number in range(IN_PROCESS_ENTRIES)}
    harness.origin.commit(files)
    directory = harness.workspaces.create_directory()
    async with harness.workspaces.checkout(
        REPO, await harness.head(), owner_uid=None, into=directory
    ) as checkout:
        assert checkout.tree.parent != directory
    await harness.workspaces.remove_directory(directory)
    assert await left_over(harness) == []


async def test_two_checkouts_are_independent(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as one, harness.checkout() as other:
        (one.tree / "README.md").write_text("changed\n")
        for name in ("README.md", ".git/index", ".git/config", "src/app.py"):
            assert not os.path.samefile(one.tree / name, other.tree / name)  # noqa: PTH121
        assert (other.tree / "README.md").read_bytes() == FILES["README.md"]
    async with harness.checkout() as later:
        assert (later.tree / "README.md").read_bytes() == FILES["README.md"]


async def test_links_and_empty_directories_of_submodules_are_copied_as_such(
    harness: WorkspaceHarness,
) -> None:
    clone = harness.origin.clone
    (clone / "link").symlink_to("/etc/passwd")
    (clone / "broken").symlink_to("nowhere")
    (clone / "directory").symlink_to("src")
    run_git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (clone / "module").mkdir()
    harness.origin.commit_as_is()
    async with harness.checkout() as checkout:
        assert (checkout.tree / "link").readlink() == Path("/etc/passwd")
        assert (checkout.tree / "broken").is_symlink()
        assert (checkout.tree / "directory").is_symlink()
        assert list((checkout.tree / "module").iterdir()) == []
        assert await harness.commit(checkout) is None


async def test_filters_and_hooks_of_the_repository_do_not_run(harness: WorkspaceHarness) -> None:
    harness.origin.commit({".gitattributes": b"* filter=evil text eol=crlf\n"})
    async with harness.checkout() as checkout:
        assert b"\r\n" in (checkout.tree / "src/app.py").read_bytes()
        assert await harness.commit(checkout) is None


async def test_names_of_any_bytes_are_checked_out(harness: WorkspaceHarness) -> None:
    names = (b"new\nline", b"\xff\xfe", b"-n", b"a b", b'"')
    for name in names:
        Path(os.fsdecode(os.fsencode(harness.origin.clone) + b"/" + name)).write_bytes(name)
    harness.origin.commit_as_is()
    async with harness.checkout() as checkout:
        for name in names:
            assert Path(os.fsdecode(os.fsencode(checkout.tree) + b"/" + name)).read_bytes() == name


@pytest.mark.parametrize("files", [3, IN_PROCESS_ENTRIES + 50])
async def test_the_tree_has_the_owner_that_the_sandbox_needs(
    harness: WorkspaceHarness, files: int
) -> None:
    harness.origin.commit({f"many/{number}": b"x\n" for number in range(files)})
    (harness.origin.clone / "link").symlink_to("many")
    harness.origin.commit_as_is()
    # Only root may change owners; an ordinary user's sandbox needs no owner.
    expected = SOME_UID if os.geteuid() == 0 else os.geteuid()
    async with harness.checkout(owner_uid=expected) as checkout:
        every = [checkout.tree, *checkout.tree.rglob("*")]
        assert len(every) > files
        # Even in one tick of the clock, no file counts as changed by the agent.
        assert all(path.lstat().st_ctime_ns < checkout.copied_at_ns for path in every)
        assert {(path.lstat().st_uid, path.lstat().st_gid) for path in every} == {
            (expected, expected)
        }
        assert run_git(checkout.tree, "status", "--porcelain") == ""
        assert checkout.index.stat().st_uid == os.geteuid()


async def test_a_large_tree_is_copied_completely(harness: WorkspaceHarness) -> None:
    files = {
        f"d{number % 7}/f{number}": b"%d\n" % number for number in range(IN_PROCESS_ENTRIES * 2)
    }
    harness.origin.commit(files)
    async with harness.checkout() as checkout:
        assert run_git(checkout.tree, "status", "--porcelain") == ""
        assert (checkout.tree / "d1/f1").read_bytes() == b"1\n"
        (checkout.tree / "d1/f1").write_bytes(b"2\n")
        commit = await harness.commit(checkout)
        assert commit is not None
        assert harness.changed(commit) == ["M 100644 d1/f1"]
    assert await left_over(harness) == []


async def test_a_tree_is_removed_whatever_the_agent_did_to_it(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        locked = checkout.tree / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0)
        (checkout.tree / "outside").symlink_to(harness.root)
        os.mkfifo(checkout.tree / "pipe")
        _dig(checkout.tree, depth=3_000)
        (checkout.tree / "src").chmod(0)
        checkout.tree.chmod(0)
    assert await left_over(harness) == []
    assert harness.mirror.exists()


async def test_a_tree_replaced_by_a_link_is_removed_without_following_it(
    harness: WorkspaceHarness,
) -> None:
    precious = harness.root / "precious"
    precious.mkdir()
    (precious / "file").touch()
    async with harness.checkout() as checkout:
        checkout.tree.rename(checkout.tree.with_name("elsewhere"))
        checkout.tree.symlink_to(precious)
    assert await left_over(harness) == []
    assert (precious / "file").exists()


async def test_a_checkout_is_removed_when_its_caller_fails(harness: WorkspaceHarness) -> None:
    with pytest.raises(RuntimeError):
        async with harness.checkout():
            raise RuntimeError
    assert await left_over(harness) == []


async def test_a_checkout_that_is_cancelled_leaves_nothing(harness: WorkspaceHarness) -> None:
    files = {f"f{number}": b"x" for number in range(IN_PROCESS_ENTRIES * 3)}
    harness.origin.commit(files)
    head = await harness.head()

    async def never_ending() -> None:
        async with harness.workspaces.checkout(REPO, head, owner_uid=None):
            await asyncio.Event().wait()

    for milliseconds in (0, 1, 5, 20, 60, 120, 200):
        task = asyncio.create_task(never_ending())
        await asyncio.wait([task], timeout=milliseconds / 1_000)
        task.cancel()
        await asyncio.wait([task])
    assert await left_over(harness) == []
    async with harness.checkout() as checkout:
        assert run_git(checkout.tree, "status", "--porcelain") == ""


async def test_many_jobs_at_once_share_one_template(harness: WorkspaceHarness) -> None:
    head = await harness.head()

    async def tree_of_a_job() -> str:
        async with harness.workspaces.checkout(REPO, head, owner_uid=None) as checkout:
            return run_git(checkout.tree, "status", "--porcelain")

    assert set(await asyncio.gather(*(tree_of_a_job() for _ in range(8)))) == {""}
    assert [path.name for path in templates(harness)] == [head]


def templates(harness: WorkspaceHarness) -> list[Path]:
    return sorted((harness.root / "data/workspaces/templates" / REPO).iterdir())


async def test_a_spare_copy_equals_a_fresh_one(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as first:
        (first.tree / "README.md").write_text("changed\n")
        (first.tree / "planted").touch()
    await harness.workspaces.wait_until_idle()
    owner = SOME_UID if os.geteuid() == 0 else None
    async with harness.checkout(owner_uid=owner) as second, harness.checkout() as third:
        for checkout in (second, third):
            assert run_git(checkout.tree, "status", "--porcelain", "--ignored") == ""
            assert await harness.commit(checkout) is None
        assert second.tree != third.tree
        path = second.tree / "src/app.py"
        assert path.stat().st_uid == (os.geteuid() if owner is None else owner)
        before = path.stat()
        path.write_text("print('HELLO')\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        commit = await harness.commit(second)
        assert commit is not None
        assert harness.changed(commit) == ["M 100644 src/app.py"]


async def test_a_spare_copy_of_an_older_commit_is_not_used(harness: WorkspaceHarness) -> None:
    async with harness.checkout():
        pass
    await harness.workspaces.wait_until_idle()
    harness.origin.commit({"new": b"1\n"})
    async with harness.checkout() as checkout:
        assert (checkout.tree / "new").exists()
    assert await left_over(harness) == []
    assert {spare.commit for spare in harness.workspaces._spares.spares} == {checkout.commit}


async def test_the_number_of_spare_copies_is_limited(harness: WorkspaceHarness) -> None:
    head = await harness.head()
    for number in range(MAX_SPARES + 2):
        repo_id = f"repo_{number}"
        await harness.mirrors.fetch_commit(repo_id, harness.remote, branch="main", known_head=None)
        async with harness.workspaces.checkout(repo_id, head, owner_uid=None):
            pass
        await harness.workspaces.wait_until_idle()
    assert len(harness.workspaces._spares.spares) == MAX_SPARES
    assert await left_over(harness) == []
    await harness.workspaces.close()
    assert list((harness.root / "data/workspaces/sessions").iterdir()) == []


async def test_only_the_latest_two_templates_are_kept(harness: WorkspaceHarness) -> None:
    commits = []
    for number in range(4):
        commits.append(harness.origin.commit({"n": b"%d" % number}))
        async with harness.checkout() as checkout:
            assert checkout.commit == commits[-1]
    assert [path.name for path in templates(harness)] == sorted(commits[-2:])


async def test_a_template_that_is_being_copied_is_not_removed(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        pass
    borrowed = harness.workspaces._templates.borrow(REPO, checkout.commit)
    with borrowed as directory:
        assert directory is not None
        for number in range(3):
            harness.origin.commit({"n": b"%d" % number})
            async with harness.checkout():
                pass
        assert (directory / "tree/README.md").exists()
    harness.origin.commit({"n": b"last"})
    async with harness.checkout():
        pass
    assert len(templates(harness)) == 2


async def test_a_starting_process_removes_only_the_directories_of_dead_ones(
    harness: WorkspaceHarness,
) -> None:
    root = harness.root / "data/workspaces"
    dead = root / "sessions" / "1-dead" / "job" / "tree"
    dead.mkdir(parents=True)
    (dead / "file").touch()
    dead.chmod(0)
    async with harness.checkout() as checkout:
        starting = Workspaces(root, harness.mirrors)
        await starting.sweep()
        assert not (root / "sessions" / "1-dead").exists()
        assert (checkout.tree / "README.md").exists()
        await starting.close()
    assert len(list((root / "sessions").iterdir())) == 1


async def test_a_template_outlives_the_process_that_built_it(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        pass
    await harness.workspaces.close()
    (harness.mirror / "objects").rename(harness.mirror / "away")
    another = Workspaces(harness.root / "data/workspaces", harness.mirrors)
    async with another.checkout(REPO, checkout.commit, owner_uid=None) as warm:
        assert (warm.tree / "README.md").exists()


async def test_a_commit_missing_from_the_mirror_makes_the_next_job_fetch_again(
    harness: WorkspaceHarness,
) -> None:
    head = await harness.head()
    for path in (harness.mirror / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"")
    with pytest.raises(RepoUnavailable):
        async with harness.workspaces.checkout(REPO, head, owner_uid=None):
            pass
    commit_found = await harness.mirrors.fetch_commit(
        REPO, harness.remote, branch="main", known_head=head
    )
    async with harness.workspaces.checkout(REPO, commit_found, owner_uid=None) as checkout:
        assert (checkout.tree / "README.md").exists()


async def test_an_unwritable_disk_is_reported_and_nothing_is_left(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        pass
    await harness.workspaces.wait_until_idle()
    spare = await harness.workspaces._spares.take(REPO, checkout.commit)
    assert spare is not None
    remove(spare.directory)
    # A copy that fails half-way simulates a full disk.
    (templates(harness)[0] / "size").write_text("100000 1")
    (templates(harness)[0] / "tree").rename(templates(harness)[0] / "gone")
    with pytest.raises(RepoUnavailable, match="cannot be written"):
        async with harness.workspaces.checkout(REPO, checkout.commit, owner_uid=None):
            pass
    assert await left_over(harness) == []


async def test_a_warm_checkout_of_a_small_repository_takes_milliseconds(
    harness: WorkspaceHarness,
) -> None:
    head = await harness.head()
    mirrors = Mirrors(harness.mirror.parent)
    workspaces = Workspaces(harness.root / "data/workspaces", mirrors)
    owner = SOME_UID if os.geteuid() == 0 else None
    taken = []
    for _ in range(30):
        started = time.perf_counter()
        commit = await mirrors.fetch_commit(REPO, harness.remote, branch="main", known_head=head)
        async with workspaces.checkout(REPO, commit, owner_uid=owner):
            taken.append(time.perf_counter() - started)
    # It takes 6 ms on an idle machine; a busy one gets more.
    assert statistics.median(taken) < 0.030


def _dig(directory: Path, *, depth: int) -> None:
    """Deeper than the longest possible path."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=here)
        deeper = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


async def test_slow_checkouts_of_one_organization_do_not_delay_those_of_another(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await harness.head()
    original = Workspaces._build

    async def hang(workspaces: Workspaces, directory: Path, repo_id: str, *arguments: Any) -> Any:
        if repo_id == "slow":
            await asyncio.get_running_loop().create_future()
        return await original(workspaces, directory, repo_id, *arguments)

    async def check_out(repo_id: str, organization_id: str) -> None:
        checkout = harness.workspaces.checkout
        async with checkout(repo_id, head, owner_uid=None, organization_id=organization_id):
            pass

    monkeypatch.setattr(Workspaces, "_build", hang)
    harness.mirrors.path("slow").symlink_to(harness.mirror)
    cores = os.cpu_count() or 1
    slow = [asyncio.create_task(check_out("slow", "org_1")) for _ in range(cores + 2)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await check_out(REPO, "org_2")
    for task in slow:
        task.cancel()
    await asyncio.wait(slow)

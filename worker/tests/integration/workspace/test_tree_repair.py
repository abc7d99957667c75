"""A large tree is restored for the next job, whatever the agent did to it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.files.copying import IN_PROCESS_ENTRIES, copy_tree
from agentjobs_worker.workspace import tree_repair
from agentjobs_worker.workspace.tree_repair import repair_tree
from tests.support.workspace import WorkspaceHarness, run_git, workspace_harness

LARGE = {f"d{number % 9}/f{number}": b"%d\n" % number for number in range(IN_PROCESS_ENTRIES + 50)}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        opened.origin.commit({**LARGE, "a/one": b"1\n", "b/one": b"2\n"})
        (opened.origin.clone / "link").symlink_to("d1/f1")
        opened.origin.commit_as_is()
        yield opened


def _edit(tree: Path) -> None:
    (tree / "d1/f1").write_text("changed\n")
    (tree / "d2/f2").unlink()
    shutil.rmtree(tree / "d3")
    (tree / "new").mkdir()
    (tree / "new/file").write_text("new\n")
    (tree / ".git/hooks").mkdir()
    (tree / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch /tmp/planted\n")
    (tree / ".git/config").write_text("[core]\n\tfsmonitor = touch /tmp/planted\n")
    (tree / "link").unlink()
    (tree / "link").symlink_to("/etc")


def _commit(tree: Path) -> None:
    (tree / "d1/f1").write_text("changed\n")
    run_git(tree, "add", "-A")
    run_git(tree, "commit", "-q", "-m", "an agent may commit")


def _hide_an_edit(tree: Path) -> None:
    path = tree / "d1/f1"
    before = path.stat()
    path.write_text("7\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _change_kinds(tree: Path) -> None:
    (tree / "d1/f1").unlink()
    (tree / "d1/f1").mkdir()
    shutil.rmtree(tree / "d2")
    (tree / "d2").symlink_to("/etc")
    (tree / "d4/f4").unlink()
    os.mkfifo(tree / "d4/f4")


def _lock_up(tree: Path) -> None:
    (tree / "d1/f1").chmod(0)
    (tree / "d1").chmod(0)
    (tree / "d2/f2").chmod(0o4755)
    (tree / "README.md").chmod(0o666)
    tree.chmod(0)


def _link_together(tree: Path) -> None:
    os.link(tree / "d1/f1", tree / "d1/second")
    (tree / "d2/f2").unlink()
    os.link(tree / "d1/f1", tree / "d2/f2")


def _name_oddly(tree: Path) -> None:
    for name in (b"new\nline", b"\xff\xfe", b"-rf", b" "):
        Path(os.fsdecode(os.fsencode(tree / "d1") + b"/" + name)).touch()


@pytest.mark.parametrize(
    "work",
    [
        _edit,
        _commit,
        _hide_an_edit,
        _change_kinds,
        _lock_up,
        _link_together,
        _name_oddly,
    ],
)
async def test_the_next_job_gets_the_same_files_as_a_fresh_checkout(
    harness: WorkspaceHarness, work: Callable[[Path], None]
) -> None:
    async with harness.checkout() as first:
        (first.tree.with_name("run")).mkdir()
        work(first.tree)
    await harness.workspaces.wait_until_idle()
    (spare,) = harness.workspaces._spares.spares
    assert spare.directory == first.tree.parent
    async with harness.checkout() as second:
        assert second.tree == first.tree
        assert sorted(path.name for path in second.tree.parent.iterdir()) == ["index", "tree"]
        template = harness.root / "data/workspaces/templates" / "repo_one" / second.commit / "tree"
        assert describe(second.tree) == describe(template)
        assert run_git(second.tree, "status", "--porcelain", "--ignored") == ""
        assert await harness.commit(second) is None
        (second.tree / "d1/f1").write_text("again\n")
        commit = await harness.commit(second)
        assert commit is not None
        assert harness.changed(commit) == ["M 100644 d1/f1"]


def describe(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Every entry with its mode and content."""
    found = {}
    for path in sorted(tree.rglob("*")):
        mode = path.lstat().st_mode
        content = os.fsencode(path.readlink()) if path.is_symlink() else b""
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else content
        found[str(path.relative_to(tree))] = (mode, content)
    return found


async def test_swapped_directories_are_detected(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as first:
        # Their files keep their names, sizes and times, the change time too.
        (first.tree / "a").rename(first.tree / "c")
        (first.tree / "b").rename(first.tree / "a")
        (first.tree / "c").rename(first.tree / "b")
    async with harness.checkout() as second:
        assert (second.tree / "a/one").read_bytes() == b"1\n"
        assert (second.tree / "b/one").read_bytes() == b"2\n"


async def test_a_job_that_starts_when_another_ends_reuses_its_tree(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as first:
        (first.tree / "d1/f1").write_text("changed\n")
    async with harness.checkout() as second:
        assert second.tree == first.tree
        assert (second.tree / "d1/f1").read_bytes() == LARGE["d1/f1"]


async def test_as_many_trees_are_kept_as_were_used_concurrently(harness: WorkspaceHarness) -> None:
    started = asyncio.Barrier(3)

    async def work() -> Path:
        async with harness.checkout() as checkout:
            await started.wait()
            return checkout.tree

    first = await asyncio.gather(*(work() for _ in range(3)))
    await harness.workspaces.wait_until_idle()
    assert {*await asyncio.gather(*(work() for _ in range(3)))} == {*first}
    await harness.workspaces.close()
    assert list((harness.root / "data/workspaces/sessions").iterdir()) == []


async def test_a_tree_with_too_many_changes_is_replaced(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_repair, "MAX_REPAIRS", 10)
    async with harness.checkout() as first:
        shutil.rmtree(first.tree / ".git")
        for number in range(20):
            (first.tree / f"n{number}").touch()
    await harness.workspaces.wait_until_idle()
    assert not first.tree.exists()
    async with harness.checkout() as second:
        assert run_git(second.tree, "status", "--porcelain") == ""


async def test_a_tree_without_its_template_is_not_reused(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as first:
        shutil.rmtree(harness.root / "data/workspaces/templates" / "repo_one")
    await harness.workspaces.wait_until_idle()
    assert not first.tree.exists()


def test_a_change_that_left_the_times_unchanged_is_found_by_comparing_bytes(tmp_path: Path) -> None:
    template, tree = tmp_path / "template", tmp_path / "tree"
    (template / "d").mkdir(parents=True)
    (template / "d/f").write_text("good")
    copy_tree(template, tree, entries=1)
    assert repair_tree(tree, template, copied_at_ns=2**62)
    (tree / "d/f").write_text("evil")
    before = (template / "d/f").stat()
    os.utime(tree / "d/f", ns=(before.st_atime_ns, before.st_mtime_ns))
    # All files count as older than the copy, as if the clock had been set back.
    assert not repair_tree(tree, template, copied_at_ns=2**62)


def test_a_tree_replaced_by_a_link_is_not_repaired_through_it(tmp_path: Path) -> None:
    template, precious = tmp_path / "template", tmp_path / "precious"
    template.mkdir()
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "tree").symlink_to(precious)
    assert not repair_tree(tmp_path / "tree", template, copied_at_ns=0)
    assert (precious / "file").exists()

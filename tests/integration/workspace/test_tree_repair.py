"""A large tree that a job had is made as new for the next one, whatever was done to it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentjobs.workspace import tree_repair
from agentjobs.workspace.copying import IN_PROCESS_ENTRIES, copy_tree
from agentjobs.workspace.tree_repair import mend_tree
from tests.support.workspace import House, open_house, run_git

LARGE = {f"d{number % 9}/f{number}": b"%d\n" % number for number in range(IN_PROCESS_ENTRIES + 50)}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
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
async def test_the_next_job_gets_the_same_files_as_good_as_new(
    house: House, work: Callable[[Path], None]
) -> None:
    async with house.checkout() as first:
        (first.tree.with_name("run")).mkdir()
        work(first.tree)
    await house.workspaces.settle()
    (spare,) = house.workspaces._spares.kept
    assert spare.directory == first.tree.parent
    async with house.checkout() as second:
        assert second.tree == first.tree
        assert sorted(path.name for path in second.tree.parent.iterdir()) == ["index", "tree"]
        template = house.root / "data/workspaces/templates" / "repo_one" / second.commit / "tree"
        assert described(second.tree) == described(template)
        assert run_git(second.tree, "status", "--porcelain", "--ignored") == ""
        assert await house.commit(second) is None
        (second.tree / "d1/f1").write_text("again\n")
        commit = await house.commit(second)
        assert commit is not None
        assert house.changed(commit) == ["M 100644 d1/f1"]


def described(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Every entry with its mode and content."""
    found = {}
    for path in sorted(tree.rglob("*")):
        mode = path.lstat().st_mode
        content = os.fsencode(path.readlink()) if path.is_symlink() else b""
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else content
        found[str(path.relative_to(tree))] = (mode, content)
    return found


async def test_directories_that_changed_places_do_not_deceive(house: House) -> None:
    async with house.checkout() as first:
        # Their files keep their names, sizes and times, the change time too.
        (first.tree / "a").rename(first.tree / "c")
        (first.tree / "b").rename(first.tree / "a")
        (first.tree / "c").rename(first.tree / "b")
    async with house.checkout() as second:
        assert (second.tree / "a/one").read_bytes() == b"1\n"
        assert (second.tree / "b/one").read_bytes() == b"2\n"


async def test_a_job_that_starts_when_another_ends_gets_its_tree(house: House) -> None:
    async with house.checkout() as first:
        (first.tree / "d1/f1").write_text("changed\n")
    async with house.checkout() as second:
        assert second.tree == first.tree
        assert (second.tree / "d1/f1").read_bytes() == LARGE["d1/f1"]


async def test_as_many_as_were_used_at_once_are_kept(house: House) -> None:
    started = asyncio.Barrier(3)

    async def work() -> Path:
        async with house.checkout() as checkout:
            await started.wait()
            return checkout.tree

    first = await asyncio.gather(*(work() for _ in range(3)))
    await house.workspaces.settle()
    assert {*await asyncio.gather(*(work() for _ in range(3)))} == {*first}
    await house.workspaces.close()
    assert list((house.root / "data/workspaces/sessions").iterdir()) == []


async def test_a_tree_not_worth_mending_is_replaced(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_repair, "MOST_REPAIRS", 10)
    async with house.checkout() as first:
        shutil.rmtree(first.tree / ".git")
        for number in range(20):
            (first.tree / f"n{number}").touch()
    await house.workspaces.settle()
    assert not first.tree.exists()
    async with house.checkout() as second:
        assert run_git(second.tree, "status", "--porcelain") == ""


async def test_a_tree_whose_template_is_gone_is_not_used_again(house: House) -> None:
    async with house.checkout() as first:
        shutil.rmtree(house.root / "data/workspaces/templates" / "repo_one")
    await house.workspaces.settle()
    assert not first.tree.exists()


def test_a_change_that_left_no_trace_in_the_times_is_found_by_its_bytes(tmp_path: Path) -> None:
    template, tree = tmp_path / "template", tmp_path / "tree"
    (template / "d").mkdir(parents=True)
    (template / "d/f").write_text("good")
    copy_tree(template, tree, entries=1)
    assert mend_tree(tree, template, copied_at_ns=2**62)
    (tree / "d/f").write_text("evil")
    before = (template / "d/f").stat()
    os.utime(tree / "d/f", ns=(before.st_atime_ns, before.st_mtime_ns))
    # Everything counts as older than the copy, as if the clock had been turned back.
    assert not mend_tree(tree, template, copied_at_ns=2**62)


def test_a_tree_that_became_a_link_is_not_mended_into_what_it_names(tmp_path: Path) -> None:
    template, precious = tmp_path / "template", tmp_path / "precious"
    template.mkdir()
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "tree").symlink_to(precious)
    assert not mend_tree(tmp_path / "tree", template, copied_at_ns=0)
    assert (precious / "file").exists()

"""Changes of a pod in which the agent has taken over everything."""

import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_kubernetes import apply_changes as apply_changes_module
from agentjobs_kubernetes.apply_changes import ChangesRequest, ChangesResponse, apply_changes
from agentjobs_kubernetes.change_stream import DIRECTORY, LINK, REMOVED
from agentjobs_runtime.sandboxes.limits import FILE_BYTES
from tests.support.pod_files import change
from tests.support.trees import describe_tree

MIB = 1024**2
PASSWD = b"../../../../../../../../../../etc/passwd"


def apply(
    target: Path,
    changes: bytes = b"",
    deleted: Sequence[bytes] = (),
    *,
    max_bytes: int = 64 * MIB,
) -> ChangesResponse:
    request = ChangesRequest(
        target=str(target),
        lower="",
        deleted="",
        max_bytes=max_bytes,
        max_file_bytes=16 * MIB,
        entry_bytes=FILE_BYTES,
    )
    removals = b"".join(change(path, kind=REMOVED) for path in deleted)
    return apply_changes(request, io.BytesIO(removals + changes))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Beside a file that must stay as it is, with links to it."""
    outside = tmp_path / "outside"
    (outside / "directory").mkdir(parents=True)
    (outside / "file").write_text("untouched")
    target = tmp_path / "target"
    (target / "directory").mkdir(parents=True)
    (target / "file").write_text("before")
    (target / "link").symlink_to(outside)
    (target / "link-to-file").symlink_to(outside / "file")
    return target


# Each is refused with these words.
REFUSED = {
    "absolute": (change(b"/etc/passwd"), "not relative"),
    "parent": (change(b"../outside/file"), "not relative"),
    "parent within": (change(b"directory/../../outside/file"), "not relative"),
    "absolute long": (change(b"/etc/" + b"x" * 200), "not relative"),
    "parent long": (change(PASSWD), "not relative"),
    "empty": (change(b""), "not relative"),
    "dot": (change(b"."), "not relative"),
    "dot within": (change(b"a/./b"), "not relative"),
    "double slash": (change(b"a//b"), "not relative"),
    "root": (change(b".", kind=DIRECTORY), "not relative"),
    "root as a link": (change(b".", kind=LINK, target=b"/etc"), "not relative"),
    "file with a slash": (change(b"a/"), "not relative"),
    "name with a NUL": (change(b"a\0b"), "not relative"),
    "through a link": (change(b"link/file", b"x"), "leads through"),
    "through a link of its own": (
        change(b"mine", kind=LINK, target=b"../outside") + change(b"mine/file", b"x"),
        "leads through",
    ),
    "directory through a link": (change(b"link/new", kind=DIRECTORY), "leads through"),
    "through a file": (change(b"file/new"), "leads through"),
    "special file": (change(b"pipe", kind=b"S"), "special file"),
    "unknown kind": (change(b"x", kind=b"\0"), "special file"),
    "text": (b"#!/bin/sh\n" * 20_000, "special file"),
    "link to nowhere": (change(b"x", kind=LINK), "contradicts itself"),
    "link to a NUL": (change(b"x", kind=LINK, target=b"a\0b"), "invalid target"),
    "long target": (change(b"x", kind=LINK, target=b"x" * 5000), "invalid target"),
    "directory with content": (change(b"x", b"content", kind=DIRECTORY), "contradicts itself"),
    "link with content": (change(b"x", b"content", kind=LINK, target=b"y"), "contradicts itself"),
    "file with a target": (change(b"x", target=b"/etc"), "contradicts itself"),
    "removal with content": (change(b"x", b"content", kind=REMOVED), "contradicts itself"),
    "too short": (change(b"x", size=4096), "ends too early"),
    "half a header": (change(b"x", b"content") + change(b"y")[:10], "ends too early"),
    "half a path": (change(b"xyz")[:-1], "ends too early"),
    "long path": (change(b"x" * 5000), "too long"),
    "long part": (change(b"x" * 256), "name that is too long"),
    "large file": (change(b"x", size=17 * MIB), "larger"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_changes_that_could_do_harm_are_refused(target: Path, case: str) -> None:
    changes, reason = REFUSED[case]
    outside = describe_tree(target.parent / "outside")
    refusal = apply(target, changes)["refused"]
    assert reason in refusal
    assert refusal.isprintable()
    assert describe_tree(target.parent / "outside") == outside


@pytest.mark.parametrize(
    "path",
    [b"..", b".", b"./", b"/", b"/etc/passwd", PASSWD, b"a//b", b"directory/", b"directory/.."],
)
def test_a_deletion_outside_of_the_directory_is_refused(target: Path, path: bytes) -> None:
    assert "not relative" in apply(target, deleted=[path])["refused"]
    assert (target / "directory").is_dir()


@pytest.mark.parametrize("path", [b"link/file", b"link/directory", b"file/x"])
def test_a_deletion_through_a_link_or_file_is_refused(target: Path, path: bytes) -> None:
    assert "leads through" in apply(target, deleted=[path])["refused"]
    assert (target.parent / "outside" / "file").read_text() == "untouched"


def test_a_deleted_link_leaves_what_it_leads_to(target: Path) -> None:
    outside = describe_tree(target.parent / "outside")
    apply(target, deleted=[b"link", b"link-to-file", b"directory", b"never/existed"])
    assert [path.name for path in target.iterdir()] == ["file"]
    assert describe_tree(target.parent / "outside") == outside


def test_endless_removals_are_refused(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_changes_module, "MAX_ENTRIES", 3)
    assert "more than 3 entries" in apply(target, deleted=[b"x"] * 4)["refused"]


def test_files_replace_links_instead_of_following_them(target: Path) -> None:
    outside = describe_tree(target.parent / "outside")
    changes = change(b"link", b"a file now") + change(b"link-to-file", b"too")
    changes += change(b"link", kind=DIRECTORY) + change(b"link/file", b"inside")
    apply(target, changes)
    assert (target / "link" / "file").read_text() == "inside"
    assert (target / "link-to-file").read_text() == "too"
    assert describe_tree(target.parent / "outside") == outside


def test_an_entry_may_replace_another_of_the_same_name(target: Path) -> None:
    changes = b"".join(
        [
            change(b"x", b"file"),
            change(b"x", kind=DIRECTORY),
            change(b"x/y", kind=DIRECTORY),
            change(b"x/y/z", b"deep"),
            change(b"x", kind=LINK, target=b"y"),
            change(b"x", kind=DIRECTORY, mode=0o755),
            change(b"x/y", b"last"),
            change(b"x/y", b"of all"),
        ]
    )
    assert apply(target, changes)["entries"] == 8
    assert (target / "x" / "y").read_text() == "of all"


@pytest.mark.parametrize("mode", [0o400, 0o4755, 0o600])
def test_a_file_is_replaced_whatever_it_was(target: Path, mode: int) -> None:
    (target / "file").write_text("a longer text than the new one")
    (target / "file").chmod(mode)
    apply(target, change(b"file", b"short", mode=0o644))
    assert (target / "file").read_text() == "short"
    assert stat.S_IMODE((target / "file").stat().st_mode) == 0o644


def test_the_inode_of_a_file_that_others_share_stays_as_it_is(target: Path) -> None:
    shared = target.parent / "shared"
    os.link(target / "file", shared)
    apply(target, change(b"file", b"after", mode=0o777))
    assert (target / "file").read_text() == "after"
    assert (shared.read_text(), shared.stat().st_mode & 0o777) == ("before", 0o644)


def test_nothing_gets_a_privilege_and_the_worker_can_read_everything(target: Path) -> None:
    changes = b"".join(
        [
            change(b"setuid", b"x", mode=0o6755),
            change(b"none", b"x", mode=0o000),
            change(b"closed", kind=DIRECTORY, mode=0o2000),
            change(b"closed/file", b"x", mode=0o111),
            change(b"sticky", kind=DIRECTORY, mode=0o1777),
        ]
    )
    apply(target, changes)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in target.rglob("*")}
    assert modes["setuid"] == 0o755
    assert modes["none"] == 0o400
    assert modes["closed"] == 0o700
    assert modes["sticky"] == 0o777
    assert {path.lstat().st_uid for path in target.rglob("*")} == {os.geteuid()}


def test_more_than_the_workspace_may_hold_is_not_written(target: Path) -> None:
    changes = b"".join(change(b"file-%d" % number) for number in range(101))
    limit = 100 * FILE_BYTES
    assert apply(target, changes, max_bytes=limit)["is_too_large"]
    assert len(list(target.glob("file-*"))) == 100
    assert apply(target, change(b"huge", size=2**62), max_bytes=limit)["is_too_large"]
    assert not (target / "huge").exists()


def test_directories_without_an_entry_of_their_own_count(target: Path) -> None:
    changes = b"".join(change(b"%d/" % number + b"d/" * 100 + b"file") for number in range(10))
    assert apply(target, changes, max_bytes=300 * FILE_BYTES)["is_too_large"]
    assert len(list(target.glob("[0-9]"))) == 3
    response = apply(target, changes)
    assert response["used_bytes"] == (10 + 7 * 101) * FILE_BYTES

"""Archives of a pod in which the agent has taken over everything."""

import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_kubernetes.archive import ArchiveRequest, ArchiveResponse, apply_changes
from agentjobs_runtime.sandboxes.limits import FILE_BYTES
from tests.support.pod_files import END, changes_of, long_name, member
from tests.support.trees import describe_tree

MIB = 1024**2
PASSWD = b"../../../../../../../../../../etc/passwd"


def apply(
    target: Path,
    archive: bytes = END,
    deleted: Sequence[bytes] | bytes = (),
    *,
    max_bytes: int = 64 * MIB,
) -> ArchiveResponse:
    request = ArchiveRequest(
        target=str(target),
        lower="",
        deleted="",
        max_bytes=max_bytes,
        max_file_bytes=16 * MIB,
        entry_bytes=FILE_BYTES,
    )
    changes = deleted if isinstance(deleted, bytes) else changes_of(archive, deleted)
    return apply_changes(request, io.BufferedReader(io.BytesIO(changes)))


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
    "absolute": (member(b"/etc/passwd") + END, "not relative"),
    "parent": (member(b"../outside/file") + END, "not relative"),
    "parent within": (member(b"directory/../../outside/file") + END, "not relative"),
    "absolute long": (long_name(b"/etc/" + b"x" * 200) + member(b"x") + END, "not relative"),
    "parent long": (long_name(PASSWD) + member(b"x") + END, "not relative"),
    "empty": (member(b"") + END, "not relative"),
    "dot": (member(b".") + END, "not relative"),
    "dot within": (member(b"a/./b") + END, "not relative"),
    "double slash": (member(b"a//b") + END, "not relative"),
    "root as a link": (member(b".", kind=b"2", target=b"/etc") + END, "not relative"),
    "file with a slash": (member(b"a/") + END, "not relative"),
    "through a link": (member(b"link/file", b"x") + END, "leads through"),
    "through a link of its own": (
        member(b"mine", kind=b"2", target=b"../outside") + member(b"mine/file", b"x") + END,
        "leads through",
    ),
    "directory through a link": (member(b"link/new/", kind=b"5") + END, "leads through"),
    "through a file": (member(b"file/new") + END, "leads through"),
    "hard link": (member(b"hard", kind=b"1", target=b"file") + END, "special file or a hard link"),
    "character device": (member(b"device", kind=b"3") + END, "special file"),
    "block device": (member(b"device", kind=b"4") + END, "special file"),
    "pipe": (member(b"pipe", kind=b"6") + END, "special file"),
    "contiguous": (member(b"file", kind=b"7") + END, "special file"),
    "PAX": (member(b"x", b"19 path=/etc/passwd\n", kind=b"x") + member(b"y") + END, "special"),
    "global PAX": (member(b"x", b"19 path=/etc/passwd\n", kind=b"g") + END, "special file"),
    "sparse": (member(b"x", kind=b"S") + END, "special file"),
    "multiple volumes": (member(b"x", kind=b"M") + END, "special file"),
    "dump of a directory": (member(b"x", kind=b"D") + END, "special file"),
    "POSIX": (member(b"x", magic=b"ustar\x0000") + END, "format of GNU tar"),
    "no magic": (member(b"x", magic=bytes(8)) + END, "format of GNU tar"),
    "damaged": (member(b"x").replace(b"x", b"y", 1) + END, "damaged"),
    "text": (b"#!/bin/sh\n" * 200, "damaged"),
    "link to nowhere": (member(b"x", kind=b"2") + END, "contradicts itself"),
    "directory with content": (member(b"x/", b"content", kind=b"5") + END, "contradicts itself"),
    "file with a target": (member(b"x", target=b"/etc") + END, "contradicts itself"),
    "negative size": (member(b"x", size=b"\xff" * 12) + END, "invalid number"),
    "signed size": (member(b"x", size=b"-0000000001\0") + END, "invalid number"),
    "size of underscores": (member(b"x", size=b"0_0_0_0_0_1\0") + END, "invalid number"),
    "no size": (member(b"x", size=bytes(12)) + END, "invalid number"),
    "too short": (member(b"x", size=b"00000010000\0") + END, "ends too early"),
    "nothing": (b"", "ends too early"),
    "no end": (member(b"x", b"content"), "ends too early"),
    "half an end": (member(b"x", b"content") + bytes(512), "ends too early"),
    "one empty block": (bytes(512) + member(b"x") + END, "empty header"),
    "name without an entry": (long_name(b"x") + END, "ends too early"),
    "two names": (long_name(b"x") * 2 + member(b"x") + END, "two names"),
    "name with a NUL": (long_name(b"a\0b") + member(b"x") + END, "contains a NUL"),
    "name without its NUL": (member(b"x", b"abc", kind=b"L") + member(b"x") + END, "a NUL"),
    "endless name": (long_name(b"x" * 5000) + member(b"x") + END, "too long"),
    "huge name": (member(b"x", kind=b"L", size=b"\x80" + b"\xff" * 11) + END, "too long"),
    "endless target": (long_name(b"x" * 5000, kind=b"K") + member(b"x") + END, "too long"),
    "long part": (long_name(b"x" * 256) + member(b"x") + END, "name that is too long"),
    "more after the end": (END + member(b"x"), "continues"),
    "endless end": (bytes(4 * 1024**2), "continues"),
    "large file": (member(b"x", size=b"%011o\0" % (17 * 1024**2)) + END, "larger"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_archive_that_could_do_harm_is_refused(target: Path, case: str) -> None:
    archive, reason = REFUSED[case]
    outside = describe_tree(target.parent / "outside")
    refusal = apply(target, archive)["refused"]
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


def test_any_number_of_deletions_comes_before_the_archive(target: Path) -> None:
    for length in (100, 8_190, 8_191, 8_192, 8_193, 100_000):
        names = [b"d%06d" % number for number in range(length // 8)] + [b"x" * (length % 8)]
        for name in filter(None, names):
            (target / os.fsdecode(name)).touch()
        apply(target, member(b"new", b"content") + END, [name for name in names if name])
        assert {path.name for path in target.iterdir()} >= {"new", "file"}
        assert not [path for path in target.iterdir() if path.name[0] == "x" or "d0" in path.name]


@pytest.mark.parametrize(
    ("deletions", "reason"), [(b"unfinished", "too early"), (b"x" * 9000, "too long")]
)
def test_an_invalid_list_of_deletions_is_refused(
    target: Path, deletions: bytes, reason: str
) -> None:
    assert reason in apply(target, deleted=deletions)["refused"]


def test_files_replace_links_instead_of_following_them(target: Path) -> None:
    outside = describe_tree(target.parent / "outside")
    archive = member(b"link", b"a file now") + member(b"link-to-file", b"too")
    archive += member(b"link/", kind=b"5") + member(b"link/file", b"inside")
    apply(target, archive + END)
    assert (target / "link" / "file").read_text() == "inside"
    assert (target / "link-to-file").read_text() == "too"
    assert describe_tree(target.parent / "outside") == outside


def test_an_entry_may_replace_another_of_the_same_name(target: Path) -> None:
    archive = b"".join(
        [
            member(b"x", b"file"),
            member(b"x/", kind=b"5"),
            member(b"x/y/", kind=b"5"),
            member(b"x/y/z", b"deep"),
            member(b"x", kind=b"2", target=b"y"),
            member(b"x/", kind=b"5", mode=0o755),
            member(b"x/y", b"last"),
            member(b"x/y", b"of all"),
        ]
    )
    assert apply(target, archive + END)["entries"] == 8
    assert (target / "x" / "y").read_text() == "of all"


@pytest.mark.parametrize("mode", [0o400, 0o4755, 0o600])
def test_a_file_is_replaced_whatever_it_was(target: Path, mode: int) -> None:
    (target / "file").write_text("a longer text than the new one")
    (target / "file").chmod(mode)
    apply(target, member(b"file", b"short", mode=0o644) + END)
    assert (target / "file").read_text() == "short"
    assert stat.S_IMODE((target / "file").stat().st_mode) == 0o644


def test_the_inode_of_a_file_that_others_share_stays_as_it_is(target: Path) -> None:
    shared = target.parent / "shared"
    os.link(target / "file", shared)
    apply(target, member(b"file", b"after", mode=0o777) + END)
    assert (target / "file").read_text() == "after"
    assert (shared.read_text(), shared.stat().st_mode & 0o777) == ("before", 0o644)


def test_nothing_gets_a_privilege_and_the_worker_can_read_everything(target: Path) -> None:
    archive = b"".join(
        [
            member(b"./", kind=b"5", mode=0o7777),
            member(b"setuid", b"x", mode=0o6755),
            member(b"none", b"x", mode=0o000),
            member(b"closed/", kind=b"5", mode=0o2000),
            member(b"closed/file", b"x", mode=0o111),
            member(b"sticky/", kind=b"5", mode=0o1777),
        ]
    )
    before = target.stat().st_mode
    apply(target, archive + END)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in target.rglob("*")}
    assert modes["setuid"] == 0o755
    assert modes["none"] == 0o400
    assert modes["closed"] == 0o700
    assert modes["sticky"] == 0o777
    assert target.stat().st_mode == before
    assert {path.lstat().st_uid for path in target.rglob("*")} == {os.geteuid()}


def test_more_than_the_workspace_may_hold_is_not_written(target: Path) -> None:
    archive = b"".join(member(b"file-%d" % number) for number in range(101))
    limit = 100 * FILE_BYTES
    assert apply(target, archive + END, max_bytes=limit)["is_too_large"]
    assert len(list(target.glob("file-*"))) == 100
    size = b"\x80" + (2**62).to_bytes(11, "big")
    assert apply(target, member(b"huge", size=size) + END, max_bytes=limit)["is_too_large"]
    assert not (target / "huge").exists()


def test_directories_without_an_entry_of_their_own_count(target: Path) -> None:
    archive = b"".join(
        long_name(b"%d/" % number + b"d/" * 100 + b"file") + member(b"x") for number in range(10)
    )
    assert apply(target, archive + END, max_bytes=300 * FILE_BYTES)["is_too_large"]
    assert len(list(target.glob("[0-9]"))) == 3
    response = apply(target, archive + END)
    assert response["used_bytes"] == (10 + 7 * 101) * FILE_BYTES

"""What a pod sends is applied by a process of its own."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from agentjobs_kubernetes import results
from agentjobs_kubernetes.change_stream import DIRECTORY
from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.download import TransferLimits, download_changes
from agentjobs_runtime.sandboxes.limits import FILE_BYTES, Limits
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxTask, UnusableResult
from tests.support.child_processes import children_of
from tests.support.pod_files import MemoryStream, change, changes_of, download
from tests.support.sandbox import eventually

NO_LIMITS = TransferLimits.of(Limits(workspace_bytes=0, file_bytes=0))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    return target


def write_tree(root: Path) -> None:
    """Names and kinds that real trees have, and some that they should not have."""
    names = [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"x" * 255, b"./dot/.hidden", b"\\back"]
    names += [b"/".join([b"deep"] * 60 + [b"file"]), b"/".join([b"y" * 200] * 15 + [b"file"])]
    for number, name in enumerate(names):
        path = Path(os.fsdecode(os.fsencode(root) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name * number * 100)
    (root / "empty").mkdir()
    (root / "program").write_text("#!/bin/sh\n")
    (root / "program").chmod(0o755)
    (root / "large").write_bytes(os.urandom(3 * 1024**2 + 1))
    (root / "link").symlink_to("../nowhere/" + "z" * 300)
    (root / "absolute").symlink_to("/etc/passwd")


def content_of(root: Path) -> dict[bytes, tuple[int, bytes]]:
    def read(path: Path) -> bytes:
        if path.is_symlink():
            return os.fsencode(path.readlink())
        return path.read_bytes() if path.is_file() else b""

    return {
        os.fsencode(path.relative_to(root)): (path.lstat().st_mode, read(path))
        for path in root.rglob("*")
    }


async def test_the_deepest_path_can_be_written_and_removed(target: Path) -> None:
    archive = change(b"d/" * 2_047 + b"x", b"content")
    assert (await download(target, archive)).entries == 1
    assert (target / ("d/" * 1_000)).is_dir()
    await download(target, deleted=[b"d"])
    assert list(target.iterdir()) == []


async def test_any_ordinary_tree_arrives_as_it_was(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_tree(source)
    received = await download(target, changes_of(source))
    assert content_of(target) == content_of(source)
    assert received.entries == len(content_of(source))
    assert received.used_bytes > received.entries * FILE_BYTES
    assert (target / "program").stat().st_mtime == int((source / "program").stat().st_mtime)


async def test_deletions_come_before_changes(target: Path) -> None:
    (target / "was-directory" / "inner").mkdir(parents=True)
    (target / "was-directory" / "inner" / "file").write_text("x")
    (target / "was-file").write_text("x")
    archive = change(b"was-directory", b"a file") + change(b"was-file", kind=DIRECTORY)
    deleted = [b"was-directory", b"was-directory/inner", b"was-directory/inner/file", b"was-file"]
    await download(target, archive + change(b"was-file/new", b"x"), deleted)
    assert (target / "was-directory").read_text() == "a file"
    assert (target / "was-file" / "new").read_text() == "x"


async def test_what_was_deleted_of_a_lower_directory_is_remembered(
    tmp_path: Path, target: Path
) -> None:
    lower = tmp_path / "lower"
    (lower / "deep" / "er").mkdir(parents=True)
    for name in ("a", "deep/er/file", "deep/kept"):
        (lower / name).write_text("lower")
    deleted = [b"a", b"only-here", b"deep/er", b"deep/er/file", b"deep/er/missing"]
    await download(target, deleted=deleted, lower=lower)
    record = tmp_path / "target.deleted"
    assert record.read_bytes() == b"a\0deep/er"
    await download(target, deleted=[b"deep", b"deep/er", b"new"], lower=lower)
    assert set(record.read_bytes().split(b"\0")) == {b"a", b"deep", b"deep/er"}
    assert (lower / "deep" / "er" / "file").read_text() == "lower"
    assert {path.name for path in tmp_path.iterdir()} == {"lower", "target", "target.deleted"}


async def test_a_parent_that_only_the_lower_directory_has_gets_its_mode(
    tmp_path: Path, target: Path
) -> None:
    lower = tmp_path / "lower"
    (lower / "private" / "open").mkdir(parents=True)
    (lower / "private").chmod(0o750)
    (lower / "private" / "open").chmod(0o777)
    await download(target, change(b"private/open/file", b"x"), lower=lower)
    assert (target / "private").stat().st_mode & 0o777 == 0o750
    assert (target / "private" / "open").stat().st_mode & 0o777 == 0o777


async def test_a_refusal_is_an_error_in_words(target: Path) -> None:
    with pytest.raises(UnusableResult, match=r"^The agent's result cannot be used because a path"):
        await download(target, change(b"../outside", b"x"))
    assert list(target.parent.iterdir()) == [target]


async def test_the_limits_of_the_workspace_hold(target: Path) -> None:
    limits = Limits(workspace_bytes=10 * FILE_BYTES)
    left = TransferLimits.of(limits, received_bytes=9 * FILE_BYTES)
    for archive, exceeded in ((change(b"a"), None), (change(b"a", b"x"), limits.workspace_text)):
        changes = MemoryStream(archive)
        assert (await download_changes(changes, target, left)).exceeded == exceeded


class EndlessStream(MemoryStream):
    """After its content, repeats something."""

    def __init__(self, content: bytes, repeated: bytes) -> None:
        super().__init__(content)
        self._repeated = repeated

    async def read(self, limit: int = 65_536) -> bytes:
        return await super().read(limit) or self._repeated


class SilentStream(MemoryStream):
    """Never sends anything."""

    async def read(self, limit: int = 65_536) -> bytes:
        assert limit
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never


class LostStream(MemoryStream):
    async def read(self, limit: int = 65_536) -> bytes:
        raise ConnectionResetError(f"lost after {limit} bytes")


async def test_an_endless_stream_is_ended(target: Path) -> None:
    limits = TransferLimits.of(Limits(workspace_bytes=1000 * FILE_BYTES))
    stream = EndlessStream(b"", change(b"file", b"content") * 60)
    received = await download_changes(stream, target, limits)
    assert received.exceeded is not None


async def test_a_lost_connection_is_raised_and_leaves_no_process(target: Path) -> None:
    before = children_of()
    with pytest.raises(ConnectionResetError, match="lost"):
        await download_changes(LostStream(), target, NO_LIMITS)
    assert children_of() == before


async def test_a_cancelled_download_leaves_no_process_and_no_descriptor(target: Path) -> None:
    before = children_of(), len(list(Path("/proc/self/fd").iterdir()))
    download = asyncio.ensure_future(download_changes(SilentStream(), target, NO_LIMITS))
    await eventually(lambda: children_of() > before[0])
    download.cancel()
    with pytest.raises(asyncio.CancelledError):
        await download
    assert (children_of(), len(list(Path("/proc/self/fd").iterdir()))) == before


async def test_a_process_that_is_killed_is_a_sandbox_error(target: Path) -> None:
    before = children_of()
    download = asyncio.ensure_future(download_changes(SilentStream(), target, NO_LIMITS))
    await eventually(lambda: children_of() > before)
    for pid in children_of() - before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="ended with -9"):
        await download


async def test_a_missing_directory_is_named(target: Path) -> None:
    with pytest.raises(SandboxError, match=r"No such file or directory: .*/target/missing"):
        await download(target / "missing")


class SilentSupervisor:
    """Answers, but sends no files."""

    @contextlib.asynccontextmanager
    async def open(self, kind: str, **_: str | int) -> AsyncIterator[SilentStream]:
        assert kind == "download"
        yield SilentStream()


async def test_a_pod_that_never_sends_its_files_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "TIMEOUT_SECONDS", 0.05)
    task = SandboxTask(
        argv=("true",),
        environment={},
        workspace=tmp_path,
        run_dir=tmp_path,
        timeout_seconds=1,
        slot=0,
    )
    with pytest.raises(UnusableResult, match=r"did not arrive within 0\.05 seconds"):
        await results.receive_results(cast("Supervisor", SilentSupervisor()), task)

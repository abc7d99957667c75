"""Directories are sent to a pod by tar, and layers as one directory."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_kubernetes.upload import upload_tree
from agentjobs_worker.sandbox.protocol import SandboxError
from tests.support.child_processes import children_of
from tests.support.pod_files import MemoryChannel, upload
from tests.support.sandbox import eventually


async def sent(tmp_path: Path, sources: Sequence[Path], excluded: Sequence[bytes] = ()) -> Path:
    """Unpacked by the system's tar."""
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    archive = await upload(sources, excluded)
    await asyncio.to_thread(
        subprocess.run, ["tar", "-x", "-p", "-C", unpacked], input=archive, check=True
    )
    return unpacked


def write(root: Path, files: dict[str, str]) -> Path:
    root.mkdir()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def files_in(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


async def test_a_tree_is_sent_with_modes_dates_and_links(tmp_path: Path) -> None:
    source = write(tmp_path / "source", {"-T": "option", "a\nb": "line", "closed/file": "x"})
    (source / os.fsdecode(b"\xff" * 255)).write_text("long")
    (source / "link").symlink_to("/etc/passwd")
    os.link(source / "-T", source / "same")
    (source / "same").chmod(0o755)
    os.utime(source / "same", (1_000_000_000, 1_000_000_000))
    (source / "closed").chmod(0o500)
    unpacked = await sent(tmp_path, [source])
    assert files_in(unpacked) == files_in(source)
    assert (unpacked / "link").readlink() == Path("/etc/passwd")
    same = (unpacked / "same").stat()
    assert (same.st_mode & 0o777, same.st_mtime, same.st_nlink) == (0o755, 1_000_000_000, 1)
    assert (unpacked / "closed").stat().st_mode & 0o777 == 0o500


async def test_a_layer_is_sent_as_one_directory(tmp_path: Path) -> None:
    lower = {"kept": "lower", "changed": "lower", "deleted": "x", "deep/er/file": "x", "d/1": "1"}
    lower |= {"now-a-file/inner": "x", "now-a-link/inner": "x", "now-a-directory": "x"}
    upper = {"changed": "upper", "new": "upper", "d/2": "2", "deep/new": "again"}
    upper |= {"now-a-file": "upper", "now-a-directory/inner": "upper"}
    sources = [write(tmp_path / "lower", lower), write(tmp_path / "upper", upper)]
    (sources[1] / "now-a-link").symlink_to("/nowhere")
    os.mkfifo(sources[0] / "pipe")
    unpacked = await sent(tmp_path, sources, [b"deleted", b"deep"])
    assert files_in(unpacked) == {
        "kept": "lower",
        "changed": "upper",
        "new": "upper",
        "d/1": "1",
        "d/2": "2",
        "deep/new": "again",
        "now-a-file": "upper",
        "now-a-link": "/nowhere",
        "now-a-directory/inner": "upper",
    }


async def test_names_of_any_bytes_can_be_in_a_lower_directory(tmp_path: Path) -> None:
    names = [b"-C", b"new\nline", b"\xff\xfe", b"*", b"\\n", b"[a]", b"--exclude=*"]
    lower = write(tmp_path / "lower", {os.fsdecode(name): "x" for name in names})
    (tmp_path / "upper").mkdir()
    unpacked = await sent(tmp_path, [lower, tmp_path / "upper"], [b"new\nline", b"[a]"])
    assert {os.fsencode(name) for name in files_in(unpacked)} == {*names} - {b"new\nline", b"[a]"}


@pytest.mark.parametrize("missing", [0, 1])
async def test_a_missing_directory_is_named(tmp_path: Path, missing: int) -> None:
    sources = [tmp_path / "lower", tmp_path / "upper"]
    sources[1 - missing].mkdir()
    channel = MemoryChannel()
    with pytest.raises(SandboxError, match=f"No such file or directory: {sources[missing]}"):
        await upload_tree(channel, sources)
    assert not channel.is_ended


@pytest.mark.parametrize("layers", [1, 2])
async def test_a_directory_that_disappears_is_an_error(tmp_path: Path, layers: int) -> None:
    """The channel is closed, so that the pod does not take half of it for the whole."""

    class RemovingChannel(MemoryChannel):
        async def write(self, data: bytes) -> None:
            assert data
            shutil.rmtree(sources[0], ignore_errors=True)

    files = {f"{number}": "x" * 50_000 for number in range(40)}
    sources = [write(tmp_path / "lower", files), write(tmp_path / "upper", {})]
    channel = RemovingChannel()
    with pytest.raises(SandboxError, match=r"cannot be read: tar: \./[0-9]+: "):
        await upload_tree(channel, sources[:layers])
    assert channel.is_closed
    assert not channel.is_ended


class StuckChannel(MemoryChannel):
    async def write(self, data: bytes) -> None:
        self.content += data
        await asyncio.get_running_loop().create_future()


class LostChannel(MemoryChannel):
    async def write(self, data: bytes) -> None:
        raise ConnectionResetError(f"lost {len(data)} bytes")


@pytest.mark.parametrize("layers", [1, 2])
async def test_a_cancelled_upload_leaves_nothing(tmp_path: Path, layers: int) -> None:
    sources = [write(tmp_path / f"source-{n}", {"file": "x" * 1_000_000}) for n in range(layers)]
    before = children_of(), len(list(Path("/proc/self/fd").iterdir()))
    channel = StuckChannel()
    upload = asyncio.ensure_future(upload_tree(channel, sources))
    await eventually(lambda: channel.content != b"")
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert channel.is_closed
    assert (children_of(), len(list(Path("/proc/self/fd").iterdir()))) == before


async def test_a_lost_connection_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError, match="lost"):
        await upload_tree(LostChannel(), [write(tmp_path / "source", {"file": "x"})])

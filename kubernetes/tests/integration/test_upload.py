"""Directories are sent to a pod by tar."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentjobs_kubernetes.upload import upload_tree
from agentjobs_worker.sandbox.protocol import SandboxError
from tests.support.child_processes import children_of
from tests.support.pod_files import MemoryStream, upload
from tests.support.sandbox import eventually


async def sent(tmp_path: Path, source: Path) -> Path:
    """Unpacked by the system's tar."""
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    archive = await upload(source)
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
    unpacked = await sent(tmp_path, source)
    assert files_in(unpacked) == files_in(source)
    assert (unpacked / "link").readlink() == Path("/etc/passwd")
    same = (unpacked / "same").stat()
    assert (same.st_mode & 0o777, same.st_mtime, same.st_nlink) == (0o755, 1_000_000_000, 1)
    assert (unpacked / "closed").stat().st_mode & 0o777 == 0o500


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(SandboxError, match=f"No such file or directory: {missing}"):
        await upload_tree(MemoryStream(), missing)


async def test_a_directory_that_disappears_is_an_error(tmp_path: Path) -> None:
    class RemovingStream(MemoryStream):
        async def write(self, data: bytes) -> None:
            assert data
            shutil.rmtree(source, ignore_errors=True)

    source = write(tmp_path / "source", {f"{number}": "x" * 50_000 for number in range(40)})
    with pytest.raises(SandboxError, match=r"cannot be read: tar: \./[0-9]+: "):
        await upload_tree(RemovingStream(), source)


class StuckStream(MemoryStream):
    async def write(self, data: bytes) -> None:
        self.content += data
        await asyncio.get_running_loop().create_future()


class LostStream(MemoryStream):
    async def write(self, data: bytes) -> None:
        raise ConnectionResetError(f"lost {len(data)} bytes")


async def test_a_cancelled_upload_leaves_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "source", {"file": "x" * 1_000_000})
    before = children_of(), len(list(Path("/proc/self/fd").iterdir()))
    stream = StuckStream()
    upload = asyncio.ensure_future(upload_tree(stream, source))
    await eventually(lambda: stream.content != b"")
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert (children_of(), len(list(Path("/proc/self/fd").iterdir()))) == before


async def test_a_lost_connection_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError, match="lost"):
        await upload_tree(LostStream(), write(tmp_path / "source", {"file": "x"}))

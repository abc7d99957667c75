"""What a pod sends: changes of any kind, and streams that need no connection."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from agentjobs_kubernetes.change_stream import DIRECTORY, FILE, HEADER, LINK, REMOVED
from agentjobs_kubernetes.download import Received, TransferLimits, download_changes
from agentjobs_kubernetes.upload import upload_tree
from agentjobs_runtime.sandboxes.limits import Limits

LIMITS = Limits(workspace_bytes=64 * 1024**2, file_bytes=16 * 1024**2)


class MemoryStream:
    """One direction: reads what it was given, or keeps what is written."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    async def read(self, limit: int = 65_536) -> bytes:
        data, self.content = self.content[:limit], self.content[limit:]
        return data

    async def write(self, data: bytes) -> None:
        assert len(data) <= 65_536
        self.content += data


def change(
    path: bytes,
    content: bytes = b"",
    *,
    kind: bytes = FILE,
    mode: int = 0o644,
    target: bytes = b"",
    size: int | None = None,
    date: int = 1_700_000_000,
) -> bytes:
    """One change, whatever it says."""
    size = len(content) if size is None else size
    header = HEADER.pack(kind, mode, size, date, len(path), len(target))
    return header + path + target + content


def changes_of(source: Path) -> bytes:
    """Everything in a directory."""
    changes = b""
    for path in sorted(source.rglob("*")):
        status, name = path.lstat(), os.fsencode(path.relative_to(source))
        mode, date = stat.S_IMODE(status.st_mode), int(status.st_mtime)
        if path.is_symlink():
            changes += change(name, kind=LINK, target=os.fsencode(path.readlink()), date=date)
        elif path.is_dir():
            changes += change(name, kind=DIRECTORY, mode=mode)
        else:
            changes += change(name, path.read_bytes(), mode=mode, date=date)
    return changes


async def upload(source: Path) -> bytes:
    stream = MemoryStream()
    await upload_tree(stream, source)
    return stream.content


async def download(
    target: Path,
    changes: bytes = b"",
    deleted: Sequence[bytes] = (),
    *,
    lower: Path | None = None,
    limits: Limits = LIMITS,
) -> Received:
    stream = MemoryStream(b"".join(change(path, kind=REMOVED) for path in deleted) + changes)
    return await download_changes(stream, target, TransferLimits.of(limits), lower=lower)

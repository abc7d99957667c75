"""What a pod sends: archives of any kind, and streams that need no connection."""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from agentjobs_kubernetes.download import Received, TransferLimits, download_changes
from agentjobs_kubernetes.upload import upload_tree
from agentjobs_runtime.sandboxes.limits import Limits

LIMITS = Limits(workspace_bytes=64 * 1024**2, file_bytes=16 * 1024**2)
END = bytes(1024)
LONG_LINK = b"././@LongLink"


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


def member(
    name: bytes,
    content: bytes = b"",
    *,
    kind: bytes = b"0",
    mode: int = 0o644,
    target: bytes = b"",
    size: bytes | None = None,
    magic: bytes = b"ustar  \0",
) -> bytes:
    """One entry, with a valid checksum, whatever it says otherwise."""
    fields = [
        name[:100].ljust(100, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0 + b"%07o\0" % 0,
        (b"%011o\0" % len(content)) if size is None else size,
        b"%011o\0" % 1_700_000_000,
        b" " * 8,
        kind,
        target[:100].ljust(100, b"\0"),
        magic,
    ]
    header = b"".join(fields).ljust(512, b"\0")
    header = header[:148] + b"%06o\0 " % sum(header) + header[156:]
    return header + content + bytes(-len(content) % 512)


def long_name(name: bytes, *, kind: bytes = b"L") -> bytes:
    return member(LONG_LINK, name + b"\0", kind=kind)


def gnu_archive(source: Path) -> bytes:
    """By Python's tarfile: an implementation that is not ours."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(source.rglob("*")):
            archive.add(path, path.relative_to(source), recursive=False)
    return buffer.getvalue()


async def upload(source: Path) -> bytes:
    stream = MemoryStream()
    await upload_tree(stream, source)
    return stream.content


async def download(
    target: Path,
    archive: bytes = END,
    deleted: Sequence[bytes] = (),
    *,
    lower: Path | None = None,
    limits: Limits = LIMITS,
) -> Received:
    changes = MemoryStream(changes_of(archive, deleted))
    return await download_changes(changes, target, TransferLimits.of(limits), lower=lower)


def changes_of(archive: bytes, deleted: Sequence[bytes] = ()) -> bytes:
    return b"".join(path + b"\0" for path in deleted) + b"\0" + archive

"""Reading many blobs through one `git cat-file --batch`, in pieces, in bounded memory.

Knows the batch protocol, not what the bytes mean.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agentjobs.git.child import GitChild
from agentjobs.git.process import STREAM_BUFFER_BYTES, GitError, git, open_git, stop_git

IDS_PER_WRITE = 1_000


class MissingObject(GitError):
    """The git directory lacks an object that it should hold."""

    def __init__(self, description: str) -> None:
        super().__init__(("cat-file", "--batch"), 1, f"fatal: {description}")


async def blob_pieces(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[bytes, bool], None]:
    """The content of each blob in the order asked; the flag marks a blob's last piece."""
    process = await open_git(
        "cat-file",
        "--batch",
        "--buffer",
        git_dir=git_dir,
        environment=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    feeding = asyncio.create_task(_feed(process, object_ids))
    parser = BatchParser()
    try:
        while chunk := await process.stdout.read(STREAM_BUFFER_BYTES):
            for piece in parser.pieces(chunk):
                yield piece
        if parser.finished != len(object_ids):
            raise MissingObject(f"{parser.finished} of {len(object_ids)} blobs were read")
    finally:
        feeding.cancel()
        await stop_git(process)


async def blob_sizes(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> list[int]:
    """The size of each blob in the order asked."""
    listed = await git(
        "cat-file",
        "--batch-check=%(objectsize)",
        "--buffer",
        git_dir=git_dir,
        environment=environment,
        input="".join(f"{object_id}\n" for object_id in object_ids).encode("ascii"),
    )
    lines = listed.stdout.decode("ascii").splitlines()
    if missing := [line for line in lines if not line.isdigit()]:
        raise MissingObject(missing[0])
    return [int(line) for line in lines]


class BatchParser:
    """Cuts the output of `cat-file --batch` into pieces of blobs."""

    def __init__(self) -> None:
        self.finished = 0
        self._rest = b""
        self._left = 0
        self._inside = False

    def pieces(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        buffer, start = self._rest + chunk, 0
        while start < len(buffer):
            if not self._inside:
                end_of_header = buffer.find(b"\n", start)
                if end_of_header < 0:
                    break
                self._left = _size_in(buffer[start:end_of_header])
                self._inside = True
                start = end_of_header + 1
            piece = buffer[start : start + self._left]
            after = start + len(piece)
            # A blob ends with a newline of the protocol: without it in sight, wait for more.
            if len(piece) == self._left:
                if after == len(buffer):
                    break
                self._inside = False
                self.finished += 1
                yield piece, True
                start = after + 1
            else:
                self._left -= len(piece)
                yield piece, False
                start = after
        self._rest = buffer[start:]


def _size_in(header: bytes) -> int:
    object_id, _, rest = header.partition(b" ")
    kind, _, size = rest.partition(b" ")
    if kind != b"blob":
        raise MissingObject(
            f"{object_id.decode('ascii', 'replace')} is not a blob in this repository"
        )
    return int(size)


async def _feed(process: GitChild, object_ids: Sequence[str]) -> None:
    assert process.stdin is not None
    ids = iter(object_ids)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while batch := list(islice(ids, IDS_PER_WRITE)):
            process.stdin.write(("\n".join(batch) + "\n").encode("ascii"))
            await process.stdin.drain()
    process.stdin.close()

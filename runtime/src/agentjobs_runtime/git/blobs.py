"""Reads many blobs through one `git cat-file --batch`, in pieces and bounded memory.

Knows the batch protocol, not what the bytes mean.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agentjobs_runtime.git.child import GitChild
from agentjobs_runtime.git.process import STREAM_BUFFER_BYTES, GitError, git, open_git, stop_git

IDS_PER_WRITE = 1_000


class MissingObject(GitError):
    """The git directory lacks an object that it should contain."""

    def __init__(self, description: str) -> None:
        super().__init__(("cat-file", "--batch"), 1, f"fatal: {description}")


async def blob_pieces(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[bytes, bool], None]:
    """The content of each blob in order; the flag marks a blob's last piece."""
    process = await open_git(
        "cat-file",
        "--batch",
        "--buffer",
        git_dir=git_dir,
        environment=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    feeder = asyncio.create_task(_feed(process, object_ids))
    parser = BatchParser()
    try:
        while chunk := await process.stdout.read(STREAM_BUFFER_BYTES):
            for piece in parser.pieces(chunk):
                yield piece
        if parser.blob_count != len(object_ids):
            raise MissingObject(f"{parser.blob_count} of {len(object_ids)} blobs were read")
    finally:
        feeder.cancel()
        await stop_git(process)


async def blob_sizes(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> list[int]:
    """The size of each blob, in order."""
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
    """Splits the output of `cat-file --batch` into pieces of blobs."""

    def __init__(self) -> None:
        self.blob_count = 0
        self._unparsed = b""
        self._remaining = 0
        self._is_in_blob = False

    def pieces(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        buffer, start = self._unparsed + chunk, 0
        while start < len(buffer):
            if not self._is_in_blob:
                end_of_header = buffer.find(b"\n", start)
                if end_of_header < 0:
                    break
                self._remaining = _parse_size(buffer[start:end_of_header])
                self._is_in_blob = True
                start = end_of_header + 1
            piece = buffer[start : start + self._remaining]
            after = start + len(piece)
            # The protocol ends a blob with a newline: wait for it before reporting the last piece.
            if len(piece) == self._remaining:
                if after == len(buffer):
                    break
                self._is_in_blob = False
                self.blob_count += 1
                yield piece, True
                start = after + 1
            else:
                self._remaining -= len(piece)
                yield piece, False
                start = after
        self._unparsed = buffer[start:]


def _parse_size(header: bytes) -> int:
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

"""Lists trees and compares two of them, as git reports them.

Names are bytes, because a file name may not be valid text.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentjobs.git.process import STREAM_BUFFER_BYTES, GitError, git, open_git, stop_git

GITLINK = "160000"
REGULAR = frozenset({"100644", "100755", "100664"})


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """`size` is 0 for directories and submodules."""

    mode: str
    object_id: str
    size: int
    path: bytes


@dataclass(frozen=True, slots=True)
class Change:
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    path: bytes


async def list_tree(git_dir: Path, revision: str) -> AsyncGenerator[TreeEntry, None]:
    """Every entry of a revision, at any depth, directories included, while git lists them.

    A small repository can list billions of entries, so the caller needs a bound.
    """
    arguments = ("ls-tree", "-r", "-t", "--long", "-z", "--full-tree", revision)
    process = await open_git(*arguments, git_dir=git_dir, stdin=asyncio.subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        unparsed = b""
        while chunk := await process.stdout.read(STREAM_BUFFER_BYTES):
            *records, unparsed = (unparsed + chunk).split(b"\0")
            for record in records:
                yield _entry(record)
        if await process.wait() != 0:
            stderr = (await process.stderr.read()).decode("utf-8", "replace")
            raise GitError(arguments, process.returncode or 0, stderr)
    finally:
        await stop_git(process)


async def changes_between(
    git_dir: Path, old: str, new: str, *, environment: Mapping[str, str] | None = None
) -> list[Change]:
    """The paths that differ; a rename is a deletion and an addition."""
    diff = await git(
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        old,
        new,
        git_dir=git_dir,
        environment=environment,
    )
    return list(_changes(diff.stdout))


def _entry(record: bytes) -> TreeEntry:
    description, _, path = record.partition(b"\t")
    mode, _, object_id, size = description.decode("ascii").split()
    return TreeEntry(mode, object_id, 0 if size == "-" else int(size), path)


def _changes(report: bytes) -> Iterator[Change]:
    fields = iter(report.split(b"\0"))
    for description in fields:
        if description:
            old_mode, new_mode, old_id, new_id, _ = description.decode("ascii")[1:].split(" ")
            yield Change(old_mode, new_mode, old_id, new_id, next(fields))

"""Lists trees and compares two of them, as git reports them.

Names are bytes, because a file name may not be valid text.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.git.limits import lower_priority
from agentjobs_runtime.git.process import GitError, open_git, stop_git

GITLINK = "160000"
REGULAR = frozenset({"100644", "100755", "100664"})
# Per diff: more would overwhelm every reader, also of the pull request.
MAX_CHANGES = 50_000
MAX_PATH_BYTES = 8 * 1024**2
# Parsing a chunk takes about a millisecond.
_CHUNK_BYTES = 64 * 1024
_LIST_TREE = ("ls-tree", "-r", "-t", "-z", "--full-tree", "--long")
# The size of each record. A name that contains the same counts too, which is more than it has.
_SIZES = re.compile(rb" (\d+)\t")


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


class TooManyChanges(Exception):
    """Two revisions differ in more paths than the caller reads; the message has the number."""


async def list_tree(git_dir: Path, revision: str) -> AsyncGenerator[TreeEntry, None]:
    """Every entry of a revision, at any depth, directories included, while git lists them.

    A small repository can list billions of entries, so the caller needs a bound.
    """
    async with aclosing(_fields((*_LIST_TREE, revision), git_dir)) as records:
        async for record in records:
            yield _entry(record)


async def measure_entries(git_dir: Path, revision: str) -> AsyncGenerator[tuple[int, int], None]:
    """How many entries follow, and their size in bytes: like `list_tree`, without their names.

    Counting a tree to its limit occupies the event loop much less.
    """
    async with aclosing(_chunks((*_LIST_TREE, revision), git_dir)) as chunks:
        async for chunk in chunks:
            yield chunk.count(b"\0"), sum(map(int, _SIZES.findall(chunk)))


async def changes_between(
    git_dir: Path,
    old: str,
    new: str,
    *,
    environment: Mapping[str, str] | None = None,
    max_changes: int = MAX_CHANGES,
    max_path_bytes: int = MAX_PATH_BYTES,
) -> list[Change]:
    """The paths that differ; a rename is a deletion and an addition. Raises TooManyChanges."""
    arguments = (
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"),
        *("--no-ext-diff", "--no-textconv", old, new),
    )
    changes: list[Change] = []
    path_bytes = 0
    description = b""
    async with aclosing(_fields(arguments, git_dir, environment)) as fields:
        async for field in fields:
            if not description:
                description = field
                continue
            changes.append(_change(description, field))
            description = b""
            path_bytes += len(field)
            if len(changes) > max_changes:
                raise TooManyChanges(f"more than {max_changes} paths")
            if path_bytes > max_path_bytes:
                raise TooManyChanges(f"paths with more than {max_path_bytes} bytes in total")
    return changes


async def _fields(
    arguments: tuple[str, ...], git_dir: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[bytes, None]:
    """The output of a command, split at NUL, as it arrives."""
    async with aclosing(_chunks(arguments, git_dir, environment)) as chunks:
        async for chunk in chunks:
            for field in chunk.split(b"\0")[:-1]:
                yield field


async def _chunks(
    arguments: tuple[str, ...], git_dir: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[bytes, None]:
    """The output of a command as it arrives, in parts that end with NUL; other tasks run in
    between."""
    process = await open_git(
        *arguments, git_dir=git_dir, environment=environment, stdin=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # A hostile tree has billions of entries.
    lower_priority(process.pid)
    try:
        unparsed = b""
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            complete, separator, unparsed = (unparsed + chunk).rpartition(b"\0")
            if separator:
                yield complete + separator
            await asyncio.sleep(0)
        if await process.wait() != 0:
            stderr = (await process.stderr.read()).decode("utf-8", "replace")
            raise GitError(arguments, process.returncode or 0, stderr)
    finally:
        await stop_git(process)


def _entry(record: bytes) -> TreeEntry:
    description, _, path = record.partition(b"\t")
    mode, _, object_id, size = description.decode("ascii").split()
    return TreeEntry(mode, object_id, 0 if size == "-" else int(size), path)


def _change(description: bytes, path: bytes) -> Change:
    old_mode, new_mode, old_id, new_id, _ = description.decode("ascii")[1:].split(" ")
    return Change(old_mode, new_mode, old_id, new_id, path)

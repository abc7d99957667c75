"""Diffs between two commits: as files for a page, a single file, or a patch for a terminal.

Only a bounded part of a large diff is read; its counts are still complete, but for files that git
takes for binary because of their size.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from agentjobs.local_git.bounded_read import read_up_to
from agentjobs.local_git.history import merge_base
from agentjobs.local_git.patch import (
    Diff,
    DiffBounds,
    FileDiff,
    parse_diff,
    parse_entries,
)
from agentjobs.local_git.unified_diff import cut_diff

MAX_SHOWN_DIFF_BYTES = 2 * 1024 * 1024

_LISTING_BYTES = 8 * 1024 * 1024
_PAGE_SECONDS = 5.0
_OPTIONS = ("-r", "--find-renames", "-l400", "--no-color", "--no-ext-diff", "--no-textconv")
_LISTING = ("diff-tree", "-z", "--raw", "--numstat", *_OPTIONS, "--end-of-options")
_PATCH = ("diff-tree", "-p", *_OPTIONS, "--end-of-options")
_SINCE_ANCESTOR = ("diff-tree", "-p", "--merge-base", *_OPTIONS, "--end-of-options")


# Larger files are not compared line by line: git treats them as binary.
_CONFIGURATION: Mapping[str, str] = {"core.bigFileThreshold": "4m"}
_ONE_FILE = DiffBounds(files=2, lines=10_000, file_lines=10_000, file_bytes=MAX_SHOWN_DIFF_BYTES)


async def diff_between(
    git_dir: Path, base: str, head: str, *, max_bytes: int = MAX_SHOWN_DIFF_BYTES
) -> Diff:
    """The files that `head` changed since the common ancestor, for a page."""
    start = await merge_base(git_dir, base, head)
    return await _read(git_dir, (start, head), DiffBounds(), max_bytes)


async def file_diff_between(
    git_dir: Path, base: str, head: str, path: str, *, max_bytes: int = MAX_SHOWN_DIFF_BYTES
) -> FileDiff | None:
    """One file of that diff with higher limits; None if it did not change.

    `path` is as shown on a page, so names that are not valid UTF-8 are found too.
    """
    ends = (await merge_base(git_dir, base, head), head)
    listing, _ = await read_up_to(
        _LISTING_BYTES,
        git_dir,
        *_LISTING,
        *ends,
        seconds=_PAGE_SECONDS,
        configuration=_CONFIGURATION,
    )
    # In a thread: parsing the longest list would block the event loop.
    entries = await asyncio.to_thread(parse_entries, listing)
    entry = next((entry for entry in entries if entry.path == path), None)
    if entry is None:
        return None
    names = [entry.name] if entry.old_name is None else [entry.name, entry.old_name]
    # All git commands of the service take paths literally.
    diff = await _read(
        git_dir, ends, _ONE_FILE, max_bytes, "--", *(os.fsdecode(name) for name in names)
    )
    return next((file for file in diff.files if file.path == path), None)


async def read_unified(
    git_dir: Path, base: str, head: str, *, max_bytes: int
) -> tuple[bytes, bool]:
    """What `head` changed since the common ancestor as one text, and whether it is complete."""
    diff, is_complete = await read_up_to(
        max_bytes,
        git_dir,
        *_SINCE_ANCESTOR,
        base,
        head,
        # Names with accents are readable.
        configuration={**_CONFIGURATION, "core.quotePath": "false"},
    )
    return (diff if is_complete else cut_diff(diff, max_bytes)), is_complete


async def _read(
    git_dir: Path, ends: tuple[str, str], bounds: DiffBounds, max_bytes: int, *paths: str
) -> Diff:
    (listing, listed_all), (patch, read_all) = await asyncio.gather(
        *(
            read_up_to(
                limit_bytes,
                git_dir,
                *command,
                *ends,
                *paths,
                seconds=_PAGE_SECONDS,
                configuration=_CONFIGURATION,
            )
            for command, limit_bytes in ((_LISTING, _LISTING_BYTES), (_PATCH, max_bytes))
        )
    )
    # Without the complete list the lines cannot be assigned to files.
    output = listing + b"\0" + patch if listed_all else listing
    # Parsing a large diff would block the event loop.
    return await asyncio.to_thread(
        parse_diff,
        output,
        complete=listed_all and read_all,
        bounds=bounds,
    )

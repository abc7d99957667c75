"""Counts the lines of one commit of a repository, from its git directory.

Knows neither the store nor when a repository wants indexing.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from agentjobs.git.blobs import blob_pieces
from agentjobs.git.trees import REGULAR, list_tree
from agentjobs.repos.index.lines import LineCounter

PROGRESS_EVERY_FILES = 500


@dataclass(frozen=True, slots=True)
class IndexResult:
    """`file_count` counts regular files, binary ones too; links and submodules are no files."""

    line_count: int
    file_count: int
    commit: str


async def count_repository(
    git_dir: Path, commit: str, progress: Callable[[int, int], None]
) -> IndexResult:
    """Count per path: a blob that two paths share counts twice. `progress` gets (done, total)."""
    async with aclosing(list_tree(git_dir, commit)) as entries:
        blobs = [entry.object_id async for entry in entries if entry.mode in REGULAR]
    progress(0, len(blobs))
    line_count = done = 0
    counter = LineCounter()
    async with aclosing(blob_pieces(git_dir, blobs)) as pieces:
        async for piece, is_last in pieces:
            counter.add(piece)
            if not is_last:
                continue
            line_count += counter.lines or 0
            counter = LineCounter()
            done += 1
            if done % PROGRESS_EVERY_FILES == 0:
                progress(done, len(blobs))
    progress(len(blobs), len(blobs))
    return IndexResult(line_count, len(blobs), commit)

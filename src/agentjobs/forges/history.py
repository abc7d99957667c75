"""What a pull request proposes: its commits and its diff, never more of either than asked for."""

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs.forges.patch import Diff, parse_diff
from agentjobs.git.process import GitError, git, open_git, stop_git

MAX_SHOWN_COMMITS = 250
MAX_SHOWN_MESSAGE_BYTES = 512 * 1024
MAX_SHOWN_DIFF_BYTES = 512 * 1024
MAX_PATCH_BYTES = 64 * 1024 * 1024

_PIECE_BYTES = 64 * 1024
_DIFF_SECONDS = 20.0
# Of the year 9999: a commit may claim any date, but not every date can be written down.
_LAST_SECOND = 253_402_300_799
_COMMIT_FIELDS = ("%H", "%an", "%ae", "%at", "%s", "%b")
_DIFF = (
    "diff-tree",
    "-r",
    "-p",
    "--find-renames",
    "-l400",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--end-of-options",
)


class Commit(msgspec.Struct, frozen=True):
    id: str
    author_name: str
    author_email: str
    authored_at: int
    subject: str
    body: str


async def merge_base(git_dir: Path, base: str, head: str) -> str:
    """Where the two parted; `base` itself when they share no history."""
    found = await git("merge-base", base, head, git_dir=git_dir, allowed_exit_codes=(0, 1))
    return found.stdout.decode("ascii").strip() or base


async def is_ancestor(git_dir: Path, older: str, newer: str) -> bool:
    found = await git(
        "merge-base", "--is-ancestor", older, newer, git_dir=git_dir, allowed_exit_codes=(0, 1)
    )
    return found.exit_code == 0


async def commits_between(
    git_dir: Path,
    base: str,
    head: str,
    *,
    limit: int = MAX_SHOWN_COMMITS,
    max_bytes: int = MAX_SHOWN_MESSAGE_BYTES,
) -> list[Commit]:
    """Those of `head` that `base` has not, oldest first; the newest `limit` of them.

    Fewer when their messages are huge; the last one's is cut then.
    """
    output, _ = await _read_up_to(
        max_bytes,
        git_dir,
        "log",
        "-z",
        f"--max-count={limit}",
        "--no-show-signature",
        f"--format={'%x00'.join(_COMMIT_FIELDS)}",
        "--end-of-options",
        f"{base}..{head}",
    )
    return list(_commits(output))[::-1]


async def diff_between(
    git_dir: Path, base: str, head: str, *, max_bytes: int = MAX_SHOWN_DIFF_BYTES
) -> Diff:
    """File by file, for a page: what `head` changed since the two commits parted."""
    start = await merge_base(git_dir, base, head)
    output, complete = await _read_up_to(
        max_bytes, git_dir, _DIFF[0], "-z", "--raw", *_DIFF[1:], start, head
    )
    # A large one takes longer than other requests should wait.
    return await asyncio.to_thread(parse_diff, output, complete=complete)


async def patch_between(
    git_dir: Path, base: str, head: str, *, max_bytes: int = MAX_PATCH_BYTES
) -> str:
    """The same as one patch, for a terminal."""
    start = await merge_base(git_dir, base, head)
    output, complete = await _read_up_to(max_bytes, git_dir, *_DIFF, start, head)
    text = output.decode("utf-8", "replace")
    return text if complete else f"{text}\n… the rest of this very large diff is left out\n"


async def _read_up_to(max_bytes: int, git_dir: Path, *arguments: str) -> tuple[bytes, bool]:
    """The output, and whether that is all of it; git is stopped once it said or took enough."""
    process = await open_git(*arguments, git_dir=git_dir, stdin=DEVNULL, stderr=DEVNULL)
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(_DIFF_SECONDS):
            while len(output) <= max_bytes and (piece := await process.stdout.read(_PIECE_BYTES)):
                output += piece
            if len(output) > max_bytes:
                return bytes(output[:max_bytes]), False
            if exit_code := await process.wait():
                raise GitError(arguments, exit_code, "")
            return bytes(output), True
    except TimeoutError:
        return bytes(output), False
    finally:
        await stop_git(process)


def _commits(output: bytes) -> Iterator[Commit]:
    fields = output.decode("utf-8", "replace").split("\0")
    width = len(_COMMIT_FIELDS)
    for at in range(0, len(fields) - width + 1, width):
        commit, name, email, authored, subject, body = fields[at : at + width]
        at_ms = min(int(authored or 0), _LAST_SECOND) * 1_000
        yield Commit(commit, name, email, at_ms, subject, body.strip())

"""The commits of a pull request, up to a limit."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs.local_git.bounded_read import read_up_to
from agentjobs_runtime.git.process import git

MAX_SHOWN_COMMITS = 250
MAX_SHOWN_MESSAGE_BYTES = 512 * 1024

# In the year 9999: a commit may have any date, but not every date can be formatted.
_LAST_SECOND = 253_402_300_799
_COMMIT_FIELDS = ("%H", "%an", "%ae", "%at", "%s", "%b")


class Commit(msgspec.Struct, frozen=True):
    id: str
    author_name: str
    author_email: str
    authored_at: int
    subject: str
    body: str


async def merge_base(git_dir: Path, base: str, head: str) -> str:
    """The common ancestor; `base` itself if they share no history."""
    result = await git("merge-base", base, head, git_dir=git_dir, allowed_exit_codes=(0, 1))
    return result.stdout.decode("ascii").strip() or base


async def is_ancestor(git_dir: Path, older: str, newer: str) -> bool:
    result = await git(
        "merge-base", "--is-ancestor", older, newer, git_dir=git_dir, allowed_exit_codes=(0, 1)
    )
    return result.exit_code == 0


async def commits_between(
    git_dir: Path,
    base: str,
    head: str,
    *,
    limit: int = MAX_SHOWN_COMMITS,
    max_bytes: int = MAX_SHOWN_MESSAGE_BYTES,
) -> list[Commit]:
    """The newest `limit` commits of `head` that `base` lacks, the oldest first.

    Fewer if their messages exceed `max_bytes`.
    """
    output, _ = await read_up_to(
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


def _commits(output: bytes) -> Iterator[Commit]:
    fields = output.decode("utf-8", "replace").split("\0")
    width = len(_COMMIT_FIELDS)
    for start in range(0, len(fields) - width + 1, width):
        commit, name, email, authored, subject, body = fields[start : start + width]
        at_ms = min(int(authored or 0), _LAST_SECOND) * 1_000
        yield Commit(commit, name, email, at_ms, subject, body.strip())

"""A job's own commit on a branch that it shares with earlier jobs and with people.

Told by the trailers, which name the job; whoever wrote before it could not know its identifier.
"""

from pathlib import Path

import msgspec

from agentjobs.git.process import git
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.pull_text import is_message_of

# People may have pushed on top of it; nobody is expected to push more than this meanwhile.
_MOST_COMMITS = 100


class OwnCommit(msgspec.Struct, frozen=True):
    commit: str
    base: str


async def own_commit(mirror: Path, head: str, job: ClaimedJob) -> OwnCommit | None:
    """The latest on the way back from `head`, which the mirror holds."""
    shown = await git(
        "log",
        "-z",
        "--first-parent",
        f"--max-count={_MOST_COMMITS}",
        "--format=%H %P%n%B",
        head,
        "--",
        git_dir=mirror,
    )
    for record in shown.stdout.decode(errors="replace").split("\0"):
        names, _, message = record.partition("\n")
        if is_message_of(job, message):
            commit, base, *_ = names.split()
            return OwnCommit(commit, base)
    return None

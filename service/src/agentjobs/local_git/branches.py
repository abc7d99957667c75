"""Lists and deletes branches that jobs pushed. Knows no rows."""

from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from agentjobs.local_git.repositories import update_refs
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import HEADS

JOB_BRANCHES = "agentjobs/"
_FORMAT = "%(objectname)%00%(refname)%00%(contents:trailers:key=Job,valueonly,separator=%2C)"


def pull_ref(number: int) -> str:
    """Not a branch, and hidden from pushes: it keeps the commits of a pull request that no branch
    contains."""
    return f"refs/agentjobs/pulls/{number}"


class JobBranch(msgspec.Struct, frozen=True):
    """`job_id` is the trailer of its head; empty if the head is not a job's commit."""

    name: str
    head: str
    job_id: str


class BranchRemoval(msgspec.Struct, frozen=True):
    """With `keep_for_pull`, the commits stay reachable for that pull request."""

    branch: JobBranch
    keep_for_pull: int | None = None


async def list_job_branches(git_dir: Path, names: Collection[str] = ()) -> list[JobBranch]:
    """All branches of jobs, or those of `names` that exist."""
    patterns = [HEADS + name for name in names] or [HEADS + JOB_BRANCHES]
    listed = await git("for-each-ref", f"--format={_FORMAT}", "--", *patterns, git_dir=git_dir)
    branches = []
    for line in listed.stdout.decode("utf-8", "replace").split("\n"):
        head, _, rest = line.partition("\0")
        ref, _, job_id = rest.partition("\0")
        name = ref.removeprefix(HEADS)
        if name.startswith(JOB_BRANCHES) and (not names or name in names):
            branches.append(JobBranch(name, head, job_id.strip()))
    return branches


async def remove_branches(git_dir: Path, removals: Iterable[BranchRemoval]) -> bool:
    """Remove all of them, or none if one has moved."""
    lines = []
    for removal in removals:
        branch = removal.branch
        if removal.keep_for_pull is not None:
            lines.append(f"update {pull_ref(removal.keep_for_pull)} {branch.head}\n")
        lines.append(f"delete {HEADS}{branch.name} {branch.head}\n")
    try:
        await update_refs(git_dir, lines)
    except GitError:
        return False
    return True

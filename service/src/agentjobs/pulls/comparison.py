"""What a pull request of the platform `local` proposes: its commits and its diff."""

from pathlib import Path

import msgspec

from agentjobs.local_git.diffs import diff_between, read_unified
from agentjobs.local_git.history import Commit, commits_between
from agentjobs.local_git.patch import Diff
from agentjobs.local_git.repositories import present_path
from agentjobs.pulls.pulls import Pull
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.refs import HEADS, has_commit, resolve
from agentjobs_runtime.problems import Problem

_MAX_PATCH_BYTES = 64 * 1024 * 1024


class Tips(msgspec.Struct, frozen=True):
    base: str
    head: str


class Proposal(msgspec.Struct, frozen=True):
    commits: list[Commit]
    commit_count: int
    diff: Diff
    tips: Tips


async def load_proposal(root: Path, pull: Pull) -> Proposal:
    """The commits and the diff, bounded, for a page."""
    git_dir = present_path(root, pull.repo_id)
    tips = await find_tips(git_dir, pull)
    return Proposal(
        commits=await commits_between(git_dir, tips.base, tips.head),
        commit_count=await _count(git_dir, tips),
        diff=await diff_between(git_dir, tips.base, tips.head),
        tips=tips,
    )


async def load_patch(root: Path, pull: Pull) -> str:
    """The diff as a patch, for a terminal."""
    git_dir = present_path(root, pull.repo_id)
    tips = await find_tips(git_dir, pull)
    patch, is_complete = await read_unified(
        git_dir, tips.base, tips.head, max_bytes=_MAX_PATCH_BYTES
    )
    end = "" if is_complete else "\n… the rest of this diff is omitted because it is too large\n"
    return patch.decode("utf-8", "replace") + end


async def find_tips(git_dir: Path, pull: Pull) -> Tips:
    """The heads of both branches; after merging or closing, the heads at that time."""
    base = head = None
    if pull.state == "open":
        base = await resolve(git_dir, HEADS + pull.base_branch)
        head = await resolve(git_dir, HEADS + pull.head_branch)
    tips = Tips(base or pull.base_commit, head or pull.head_commit)
    for commit in (tips.base, tips.head):
        if commit not in (base, head) and not await has_commit(git_dir, commit):
            raise Problem(
                "unavailable",
                f"The commit {commit} of pull request {pull.number} is not in the repository.",
            )
    return tips


async def _count(git_dir: Path, tips: Tips) -> int:
    result = await git("rev-list", "--count", f"{tips.base}..{tips.head}", git_dir=git_dir)
    return int(result.stdout)

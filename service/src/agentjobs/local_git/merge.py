"""Merges a branch into another one of a bare repository, without a work tree."""

from pathlib import Path

import msgspec

from agentjobs.local_git.branches import pull_ref
from agentjobs.local_git.commit_tree import commit_tree, merged_tree, resolve_tree
from agentjobs.local_git.history import is_ancestor
from agentjobs.local_git.rebase import rebase_onto
from agentjobs.local_git.repositories import update_refs
from agentjobs.platforms.protocol import MergeMethod
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import HEADS

_SQUASHED = "Squashed-From"


class BranchMoved(Exception):
    """The branch moved meanwhile; nothing was changed."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """Moves `branch` from `base` to a commit with the changes of `head`.

    `message` is that of a new commit; a rebase keeps the messages of its commits.
    """

    branch: str
    base: str
    head: str
    method: MergeMethod
    message: str
    identity: Identity
    pull_number: int


async def merge_into(git_dir: Path, merge: Merge) -> str:
    """The commit that merged the head.

    If an interrupted attempt has merged it already, its commit is returned. Raises BranchMoved,
    MergeConflict or RebaseRefused.
    """
    if await is_ancestor(git_dir, merge.head, merge.base):
        return await _find_merge_commit(git_dir, merge.head, merge.base)
    if merge.method == "merge":
        commit = await _create_merge_commit(git_dir, merge)
    elif merge.method == "squash":
        commit = await _squash(git_dir, merge)
    else:
        commit = await rebase_onto(git_dir, merge.base, merge.head, merge.identity)
    await _move(git_dir, merge, commit)
    return commit


async def _create_merge_commit(git_dir: Path, merge: Merge) -> str:
    tree = await merged_tree(git_dir, merge.base, merge.head)
    return await _commit(git_dir, merge, tree, merge.message, merge.base, merge.head)


async def _squash(git_dir: Path, merge: Merge) -> str:
    tree = await merged_tree(git_dir, merge.base, merge.head)
    trailer = f"{_SQUASHED}: {merge.head}"
    if tree == await resolve_tree(git_dir, merge.base):
        return await _find_squashed(git_dir, merge, trailer) or merge.base
    return await _commit(git_dir, merge, tree, f"{merge.message}\n{trailer}\n", merge.base)


async def _commit(git_dir: Path, merge: Merge, tree: str, message: str, *parents: str) -> str:
    environment = merge.identity.as_author_and_committer
    return await commit_tree(
        git_dir, tree, parents, message.encode("utf-8", "replace"), environment
    )


async def _move(git_dir: Path, merge: Merge, commit: str) -> None:
    lines = [f"update {HEADS}{merge.branch} {commit} {merge.base}\n"]
    if await is_ancestor(git_dir, commit, merge.base):
        # An interrupted attempt has moved the branch.
        lines = []
    if merge.method != "merge":
        # The new history does not contain the head.
        lines.append(f"update {pull_ref(merge.pull_number)} {merge.head}\n")
    if not lines:
        return
    try:
        await update_refs(git_dir, lines)
    except GitError as error:
        raise BranchMoved(error.reason) from None


async def _find_squashed(git_dir: Path, merge: Merge, trailer: str) -> str | None:
    listed = await git(
        "rev-list",
        "--first-parent",
        "--max-count=1",
        "--fixed-strings",
        f"--grep={trailer}",
        f"{merge.head}..{merge.base}",
        git_dir=git_dir,
    )
    return listed.stdout.decode("ascii").strip() or None


async def _find_merge_commit(git_dir: Path, head: str, base: str) -> str:
    """The oldest first-parent commit of the branch that has `head` as an ancestor."""
    listed = await git(
        "rev-list", "--first-parent", "--ancestry-path", f"{head}..{base}", git_dir=git_dir
    )
    commits = listed.stdout.decode("ascii").split()
    return commits[-1] if commits else base

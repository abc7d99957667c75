"""Merges in a bare repository: creates a merge commit without a work tree."""

from pathlib import Path

from agentjobs.git.identity import Identity
from agentjobs.git.process import GitError, git
from agentjobs.git.refs import HEADS
from agentjobs.local_git.history import is_ancestor
from agentjobs.local_git.repositories import DURABLE

_CONFLICTS = 1


class MergeConflict(Exception):
    """Both sides changed the same lines; `files` are those in conflict."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(", ".join(files))
        self.files = files


class BranchMoved(Exception):
    """The branch moved meanwhile; nothing was changed."""


async def merge_into(
    git_dir: Path, branch: str, *, base: str, head: str, message: str, identity: Identity
) -> str:
    """Move `branch` from `base` to a merge of `head`; returns the commit that merged `head`.

    If an interrupted attempt has merged `head` already, its commit is returned.
    """
    if await is_ancestor(git_dir, head, base):
        return await _find_merge_commit(git_dir, head, base)
    tree = await _merged_tree(git_dir, base, head)
    result = await git(
        "commit-tree",
        tree,
        "-p",
        base,
        "-p",
        head,
        git_dir=git_dir,
        input=message.encode("utf-8", "replace"),
        environment=identity.as_author_and_committer,
        configuration=DURABLE,
    )
    commit = result.stdout.decode("ascii").strip()
    try:
        await git(
            "update-ref", HEADS + branch, commit, base, git_dir=git_dir, configuration=DURABLE
        )
    except GitError as error:
        raise BranchMoved(error.reason) from None
    return commit


async def _merged_tree(git_dir: Path, base: str, head: str) -> str:
    merged = await git(
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
        base,
        head,
        git_dir=git_dir,
        configuration=DURABLE,
        allowed_exit_codes=(0, _CONFLICTS),
    )
    tree, *files = merged.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
    if merged.exit_code == _CONFLICTS:
        raise MergeConflict(tuple(sorted(set(files))))
    return tree


async def _find_merge_commit(git_dir: Path, head: str, base: str) -> str:
    """The oldest first-parent commit of the branch that has `head` as an ancestor."""
    listed = await git(
        "rev-list", "--first-parent", "--ancestry-path", f"{head}..{base}", git_dir=git_dir
    )
    commits = listed.stdout.decode("ascii").split()
    return commits[-1] if commits else base

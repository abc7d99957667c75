"""Applies the commits of a branch on top of another one, without a work tree."""

from pathlib import Path

from agentjobs.local_git.commit_tree import commit_tree, merged_tree, resolve_tree
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.process import git

# Each takes a few processes, and pushes to the repository wait meanwhile.
MAX_COMMITS = 100
MAX_COMMIT_BYTES = 1024 * 1024
_FORMAT = "%an%x00%ae%x00%ad%x00%B"


class RebaseRefused(Exception):
    """The message says why, for people."""


async def rebase_onto(git_dir: Path, base: str, head: str, committer: Identity) -> str:
    """The last of the new commits; `base` if it contains all changes already.

    The commits keep their author and message. Raises RebaseRefused or MergeConflict.
    """
    onto, onto_tree = base, await resolve_tree(git_dir, base)
    for commit, parent in await _commits(git_dir, base, head):
        # git chooses the parent as the base of this merge, because both sides have it as a parent.
        beside = await commit_tree(
            git_dir, onto_tree, [parent], b"", committer.as_author_and_committer
        )
        tree = await merged_tree(git_dir, beside, commit)
        if tree != onto_tree:
            onto, onto_tree = await _copy(git_dir, commit, tree, onto, committer), tree
    return onto


async def _commits(git_dir: Path, base: str, head: str) -> list[tuple[str, str]]:
    """Each with its parent, the oldest first."""
    listed = await git(
        "rev-list",
        "--parents",
        "--topo-order",
        f"--max-count={MAX_COMMITS + 1}",
        f"{base}..{head}",
        git_dir=git_dir,
    )
    lines = [line.split() for line in listed.stdout.decode("ascii").splitlines()]
    if len(lines) > MAX_COMMITS:
        raise RebaseRefused(f"It has more than {MAX_COMMITS} commits; merge or squash it instead.")
    if any(len(line) != 2 for line in lines):
        raise RebaseRefused("Its commits are not in one line; merge or squash it instead.")
    await _check_sizes(git_dir, [commit for commit, _ in lines])
    return [(commit, parent) for commit, parent in reversed(lines)]


async def _check_sizes(git_dir: Path, commits: list[str]) -> None:
    checked = await git(
        "cat-file",
        "--batch-check=%(objectsize)",
        git_dir=git_dir,
        input="".join(f"{commit}\n" for commit in commits).encode(),
    )
    if any(int(size) > MAX_COMMIT_BYTES for size in checked.stdout.split()):
        raise RebaseRefused("The message of a commit is too long; merge or squash it instead.")


async def _copy(git_dir: Path, commit: str, tree: str, parent: str, committer: Identity) -> str:
    shown = await git(
        "show", "-s", "--no-show-signature", "--date=raw", f"--format={_FORMAT}", commit,
        git_dir=git_dir,
    )  # fmt: skip
    name, email, date, message = shown.stdout.split(b"\0", 3)
    author = {
        "GIT_AUTHOR_NAME": name.decode("utf-8", "replace"),
        "GIT_AUTHOR_EMAIL": email.decode("utf-8", "replace"),
        "GIT_AUTHOR_DATE": f"@{date.decode('ascii')}",
    }
    environment = {**committer.as_role("COMMITTER"), **author}
    return await commit_tree(git_dir, tree, [parent], message.rstrip(b"\n") + b"\n", environment)

"""Creates commits in a bare repository, without a work tree."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from agentjobs.local_git.repositories import DURABLE
from agentjobs_runtime.git.process import git

_CONFLICTS = 1


class MergeConflict(Exception):
    """Both sides changed the same lines; `files` are those in conflict, and marked in `tree`."""

    def __init__(self, files: tuple[str, ...], tree: str) -> None:
        super().__init__(", ".join(files))
        self.files = files
        self.tree = tree


async def commit_tree(
    git_dir: Path,
    tree: str,
    parents: Iterable[str],
    message: bytes,
    environment: Mapping[str, str],
) -> str:
    """`environment` names author and committer."""
    result = await git(
        "commit-tree",
        tree,
        *(argument for parent in parents for argument in ("-p", parent)),
        git_dir=git_dir,
        input=message,
        environment=environment,
        configuration=DURABLE,
    )
    return result.stdout.decode("ascii").strip()


async def resolve_tree(git_dir: Path, commit: str) -> str:
    result = await git("rev-parse", "--verify", f"{commit}^{{tree}}", git_dir=git_dir)
    return result.stdout.decode("ascii").strip()


async def merged_tree(
    git_dir: Path,
    base: str,
    head: str,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 120,
) -> str:
    """The tree that a merge of two commits has. Raises MergeConflict."""
    merged = await git(
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
        base,
        head,
        git_dir=git_dir,
        environment=environment,
        configuration=DURABLE,
        timeout_seconds=timeout_seconds,
        allowed_exit_codes=(0, _CONFLICTS),
    )
    tree, *files = merged.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
    if merged.exit_code == _CONFLICTS:
        raise MergeConflict(tuple(sorted(set(files))), tree)
    return tree

"""Reads branches and commits of a git directory. Writes nothing."""

from collections.abc import Collection
from pathlib import Path

from agentjobs_runtime.git.process import git

HEADS = "refs/heads/"


async def resolve(git_dir: Path, revision: str) -> str | None:
    """The commit a revision names, or None."""
    result = await git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        git_dir=git_dir,
        allowed_exit_codes=(0, 1, 128),
    )
    return result.stdout.decode("ascii").strip() if result.exit_code == 0 else None


async def has_commit(git_dir: Path, commit: str) -> bool:
    result = await git(
        "cat-file", "-e", f"{commit}^{{commit}}", git_dir=git_dir, allowed_exit_codes=(0, 1, 128)
    )
    return result.exit_code == 0


async def list_branches(git_dir: Path) -> dict[str, str]:
    """Branch name to commit."""
    listed = await git("for-each-ref", "--format=%(objectname) %(refname)", HEADS, git_dir=git_dir)
    branches = {}
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition(" ")
        branches[name.removeprefix(HEADS)] = commit
    return branches


async def read_heads(git_dir: Path, branches: Collection[str]) -> dict[str, str]:
    """Branch name to commit, of those branches that exist; reads no other ref."""
    names = sorted(branches)
    if not names:
        return {}
    listed = await git(
        "cat-file",
        "--batch-check=%(objectname)",
        git_dir=git_dir,
        input="".join(f"{HEADS}{name}\n" for name in names).encode(),
    )
    lines = listed.stdout.decode("utf-8", "replace").splitlines()
    return {
        name: line for name, line in zip(names, lines, strict=True) if not line.endswith(" missing")
    }


async def default_branch(git_dir: Path) -> str | None:
    """The branch HEAD points at, whether or not it has a commit yet."""
    result = await git(
        "symbolic-ref", "--quiet", "HEAD", git_dir=git_dir, allowed_exit_codes=(0, 1)
    )
    name = result.stdout.decode("utf-8", "replace").strip()
    return name.removeprefix(HEADS) if name.startswith(HEADS) else None


async def has_whole_commit(git_dir: Path, commit: str) -> bool:
    """Whether no object of its tree and its history is missing, as after a fetch that was killed.

    Takes milliseconds for a commit that a ref contains: the objects of refs are complete.
    """
    done = await git(
        "rev-list",
        "--objects",
        "--quiet",
        commit,
        "--not",
        "--all",
        git_dir=git_dir,
        allowed_exit_codes=(0, 128),
    )
    return done.exit_code == 0


async def has_whole_tree(git_dir: Path, commit: str) -> bool:
    """Whether the commit and all its files are there, whatever its history lacks."""
    done = await git(
        *("rev-list", "--objects", "--no-walk", "--quiet", commit),
        git_dir=git_dir,
        allowed_exit_codes=(0, 128),
    )
    return done.exit_code == 0

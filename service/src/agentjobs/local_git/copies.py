"""Bare copies of repositories that a platform hosts: the default branch, as last fetched.

A copy is stored like a `local` repository, so that the same code reads it. Knows no rows.
"""

import asyncio
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from agentjobs.local_git.fetch_errors import fetch_problem
from agentjobs.local_git.repositories import incoming_path
from agentjobs.platforms.protocol import PlatformError, PlatformFault
from agentjobs_runtime.git.process import GitError, GitTimeout, git
from agentjobs_runtime.git.refs import HEADS, list_branches, resolve
from agentjobs_runtime.git.remote import (
    NETWORK_PROTOCOLS,
    Remote,
    is_access_denied,
    is_branch_name,
    is_temporary_failure,
)

# Not a branch: the branch moves once the fetch is complete.
_FETCHED = "refs/agentjobs/fetched"
_FETCH_SECONDS = 3600.0
_NO_BRANCH = re.compile(r"couldn't find remote ref")


async def refresh_copy(
    remote: Remote, target: Path, branch: str, *, protocols: str = NETWORK_PROTOCOLS
) -> str:
    """Fetch the branch with its history into `target`, creating it if missing; returns the head.

    Raises GitError or PlatformError; see `fetch_error`.
    """
    if not is_branch_name(branch):
        raise PlatformError(f"The default branch has an invalid name: {branch!r}.")
    if not (target / "HEAD").is_file():
        await _create(target)
    await fetch_refs(remote, target, [f"+{HEADS}{branch}:{_FETCHED}"], protocols=protocols)
    commit = await resolve(target, _FETCHED)
    if commit is None:
        raise PlatformError(f"The branch {branch!r} does not point to a commit.")
    await _move_branch(target, branch, commit)
    return commit


def fetch_error(name: str, branch: str, error: GitError) -> PlatformError:
    """The error with a message for people; `name` is the repository's."""
    if _NO_BRANCH.search(error.stderr):
        return PlatformError(f"{name} has no branch {branch!r}.", "away")
    fault: PlatformFault = "refused"
    if is_access_denied(error.stderr):
        fault = "denied"
    elif isinstance(error, GitTimeout) or is_temporary_failure(error.stderr):
        fault = "away"
    return PlatformError(fetch_problem(name, error).message, fault)


async def _create(target: Path) -> None:
    incoming = incoming_path(target)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Remove what an interrupted attempt left.
    for path in (incoming, target):
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
    await git("init", "--quiet", "--bare", "--template=", str(incoming))
    incoming.rename(target)


async def fetch_refs(
    remote: Remote,
    git_dir: Path,
    refspecs: Iterable[str],
    *options: str,
    protocols: str,
    timeout_seconds: float = _FETCH_SECONDS,
) -> None:
    """Raises GitError."""
    await git(
        *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
        *options,
        "--",
        remote.url,
        *refspecs,
        git_dir=git_dir,
        # Keep packs packed: unpacked, a small one could become many large files.
        configuration=remote.configuration,
        environment=remote.environment,
        protocols=protocols,
        timeout_seconds=timeout_seconds,
    )


async def _move_branch(target: Path, branch: str, commit: str) -> None:
    branches = await list_branches(target)
    if branches == {branch: commit}:
        return
    # Delete others first: `main` and `main/next` cannot both exist.
    for name in branches.keys() - {branch}:
        await git("update-ref", "--no-deref", "-d", HEADS + name, git_dir=target)
    await git("update-ref", "--no-deref", HEADS + branch, commit, git_dir=target)
    await git("symbolic-ref", "HEAD", HEADS + branch, git_dir=target)

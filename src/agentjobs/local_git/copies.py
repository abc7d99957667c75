"""The bare copy of a repository that a platform keeps: its default branch, as last fetched.

It lies where `local` repositories lie, so that whatever reads those reads it. Knows no rows.
"""

import asyncio
import re
import shutil
from pathlib import Path

from agentjobs.forges.protocol import ForgeError, ForgeFault
from agentjobs.git.process import GitError, GitTimeout, git
from agentjobs.git.refs import HEADS, list_branches, resolve
from agentjobs.git.remote import (
    NETWORK_PROTOCOLS,
    Remote,
    is_access_denied,
    is_branch_name,
    is_temporary_failure,
)
from agentjobs.local_git.fetch_errors import unreadable
from agentjobs.local_git.repositories import incoming_path

# Beside the branches: they move when all of it is here.
_FETCHED = "refs/agentjobs/fetched"
_FETCH_SECONDS = 3600.0
_NO_BRANCH = re.compile(r"couldn't find remote ref")


async def refresh_copy(
    remote: Remote, target: Path, branch: str, *, protocols: str = NETWORK_PROTOCOLS
) -> str:
    """The commit the branch is at, with its history in `target`, which is made when missing.

    Raises GitError or ForgeError; see `fetch_trouble`.
    """
    if not is_branch_name(branch):
        raise ForgeError(f"Its default branch has a name that git does not take: {branch!r}.")
    if not (target / "HEAD").is_file():
        await _make(target)
    await _fetch(remote, target, branch, protocols)
    commit = await resolve(target, _FETCHED)
    if commit is None:
        raise ForgeError(f"Its branch {branch!r} does not lead to a commit.")
    await _point(target, branch, commit)
    return commit


def fetch_trouble(shown: str, branch: str, error: GitError) -> ForgeError:
    """What went wrong, for people; `shown` is what they call the repository."""
    if _NO_BRANCH.search(error.stderr):
        return ForgeError(f"{shown} has no branch {branch!r}; it was asked for it.", "away")
    fault: ForgeFault = "refused"
    if is_access_denied(error.stderr):
        fault = "denied"
    elif isinstance(error, GitTimeout) or is_temporary_failure(error.stderr):
        fault = "away"
    return ForgeError(unreadable(shown, error).message, fault)


async def _make(target: Path) -> None:
    incoming = incoming_path(target)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # What a kill left half made, here or there, is of no use.
    for place in (incoming, target):
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    await git("init", "--quiet", "--bare", "--template=", str(incoming))
    incoming.rename(target)


async def _fetch(remote: Remote, target: Path, branch: str, protocols: str) -> None:
    await git(
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--",
        remote.url,
        f"+{HEADS}{branch}:{_FETCHED}",
        git_dir=target,
        # Unpacked, a small pack could become any number of large files.
        configuration={"fetch.unpackLimit": "1", **remote.configuration},
        environment=remote.environment,
        protocols=protocols,
        timeout_seconds=_FETCH_SECONDS,
    )


async def _point(target: Path, branch: str, commit: str) -> None:
    branches = await list_branches(target)
    if branches == {branch: commit}:
        return
    # First, because `main` cannot be a branch beside `main/next`.
    for name in branches.keys() - {branch}:
        await git("update-ref", "--no-deref", "-d", HEADS + name, git_dir=target)
    await git("update-ref", "--no-deref", HEADS + branch, commit, git_dir=target)
    await git("symbolic-ref", "HEAD", HEADS + branch, git_dir=target)

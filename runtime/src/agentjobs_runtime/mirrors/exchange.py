"""Exchanges a commit with a remote through a ref that is no branch, so that nothing starts there.

Knows neither jobs nor platforms.
"""

import contextlib
from pathlib import Path

from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import resolve
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.mirrors.errors import RepoUnavailable, repo_unavailable
from agentjobs_runtime.mirrors.mirror import fetch_ref
from agentjobs_runtime.mirrors.publish import push_ref


async def upload_commit(mirror: Path, commit: str, ref: str, remote: Remote) -> None:
    """Raises PushRejected if the remote refuses and RepoUnavailable if it does not respond."""
    await push_ref(mirror, commit, ref, remote)


async def download_commit(mirror: Path, ref: str, remote: Remote) -> str:
    """The commit of the ref, which the mirror has afterwards. Raises RepoUnavailable."""
    try:
        await fetch_ref(mirror, remote, f"+{ref}:{ref}")
        commit = await resolve(mirror, ref)
    except GitError as error:
        raise repo_unavailable("the commit cannot be fetched", remote, error) from None
    finally:
        with contextlib.suppress(GitError):
            await git("update-ref", "-d", ref, git_dir=mirror)
    if commit is None:
        raise RepoUnavailable(f"{ref} does not name a commit")
    return commit


async def remove_ref(mirror: Path, ref: str, remote: Remote) -> None:
    """Raises PushRejected if the remote refuses and RepoUnavailable if it does not respond."""
    await push_ref(mirror, "", ref, remote)

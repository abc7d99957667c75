"""Commits of pull requests that a platform hosts, fetched for one reading. Knows no rows."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs.local_git.copies import fetch_refs
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote

_FETCH_SECONDS = 60.0


@asynccontextmanager
async def fetch_heads(
    remote: Remote,
    copy: Path,
    commits: Collection[str],
    *,
    scratch: Path,
    protocols: str = NETWORK_PROTOCOLS,
) -> AsyncIterator[Path]:
    """A temporary repository that has the commits, without their history, and all of `copy`.

    Only the holder of a sync may write to the copy itself. Raises GitError.
    """
    directory = Path(tempfile.mkdtemp(prefix="pull-heads-", dir=scratch))
    try:
        await git("init", "--quiet", "--bare", "--template=", str(directory))
        alternates = directory / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{(copy / 'objects').absolute()}\n")
        await _fetch(remote, directory, commits, protocols)
        yield directory
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _fetch(remote: Remote, directory: Path, commits: Collection[str], protocols: str) -> None:
    refspecs = [f"+{commit}:refs/heads/{commit}" for commit in commits]
    try:
        await fetch_refs(
            remote,
            directory,
            refspecs,
            "--depth=1",
            protocols=protocols,
            timeout_seconds=_FETCH_SECONDS,
        )
    except GitError:
        if len(commits) == 1:
            return
        # One of them may no longer exist.
        for commit in commits:
            await _fetch(remote, directory, [commit], protocols)

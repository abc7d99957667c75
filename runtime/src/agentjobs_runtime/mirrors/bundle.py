"""Commits of a mirror as thin git bundles, so that another machine can publish them.

A bundle has the objects of a commit that its base lacks; the reader must have the base.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import has_commit
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import INCOMING_PREFIX
from agentjobs_runtime.threads import run_in_thread

_TIMEOUT_SECONDS = 600


async def create_bundle(mirror: Path, base: str, commit: str, max_bytes: int) -> bytes | None:
    """The commits between `base` and `commit`; None if they need more than `max_bytes`."""
    async with _temporary_file(mirror) as file, _temporary_ref(mirror, commit) as ref:
        await git(
            *("bundle", "create", "--quiet", str(file), f"{base}..{ref}"),
            git_dir=mirror,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        if file.stat().st_size > max_bytes:
            return None
        return await run_in_thread(file.read_bytes)


async def import_bundle(mirror: Path, bundle: bytes, commit: str) -> None:
    """Add the bundle's commit to the mirror. Raises RepoUnavailable if its base is missing."""
    if await has_commit(mirror, commit):
        return
    async with _temporary_file(mirror) as file:
        await run_in_thread(file.write_bytes, bundle)
        try:
            await git(
                *("bundle", "unbundle", str(file)),
                git_dir=mirror,
                timeout_seconds=_TIMEOUT_SECONDS,
            )
        except GitError as error:
            message = f"the kept commit {commit[:12]} cannot be read: {error.reason}"
            raise RepoUnavailable(message) from None
    if not await has_commit(mirror, commit):
        raise RepoUnavailable(f"the kept work does not contain the commit {commit[:12]}")


@asynccontextmanager
async def _temporary_file(mirror: Path) -> AsyncIterator[Path]:
    # The prefix lets a later garbage collection remove what a killed process leaves.
    with TemporaryDirectory(prefix=INCOMING_PREFIX, dir=mirror) as directory:
        yield Path(directory) / "bundle"


@asynccontextmanager
async def _temporary_ref(mirror: Path, commit: str) -> AsyncIterator[str]:
    """Git bundles what refs name, not bare commits."""
    ref = f"refs/kept/{commit}"
    await git("update-ref", ref, commit, git_dir=mirror)
    try:
        yield ref
    finally:
        await git("update-ref", "-d", ref, git_dir=mirror)

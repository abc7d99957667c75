"""Copies a bare repository during pushes and repacks, with everything that its refs reach."""

from pathlib import Path

from agentjobs.store.database import StoreError
from agentjobs_runtime.git.process import GitError, git

_COPY_SECONDS = 3600.0
# The operator may read it whoever owns it.
_UPLOAD_PACK = "git -c safe.directory='*' upload-pack"


async def copy_repository(source: Path, target: Path) -> None:
    """Git sends one state of the refs, and receives nothing that is incomplete."""
    try:
        await git(
            *("clone", "--quiet", "--mirror", "--no-local", "--template="),
            *(f"--upload-pack={_UPLOAD_PACK}", "--", str(source), str(target)),
            protocols="file",
            timeout_seconds=_COPY_SECONDS,
        )
        await git("config", "--local", "--remove-section", "remote.origin", git_dir=target)
    except GitError as error:
        raise StoreError(
            f"{source} is incomplete ({error.reason}), so nothing was changed. Try again; if this"
            " persists, run `git fsck` in that directory"
        ) from None

"""Tries a merge of two commits, and leaves nothing of it in the repository."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from agentjobs.local_git.commit_tree import MergeConflict, merged_tree
from agentjobs_runtime.git.process import GitError

_TIMEOUT_SECONDS = 5.0


async def find_conflicts(git_dir: Path, base: str, head: str) -> tuple[str, ...] | None:
    """The files in conflict; None if git could not tell in time."""
    objects = await asyncio.to_thread(_borrow_objects, git_dir)
    try:
        await merged_tree(
            git_dir,
            base,
            head,
            environment={"GIT_OBJECT_DIRECTORY": str(objects)},
            timeout_seconds=_TIMEOUT_SECONDS,
        )
    except MergeConflict as conflict:
        return conflict.files
    except GitError:
        return None
    finally:
        await asyncio.to_thread(shutil.rmtree, objects, ignore_errors=True)
    return ()


def _borrow_objects(git_dir: Path) -> Path:
    """A directory for new objects that has all those of the repository, too."""
    directory = Path(tempfile.mkdtemp(prefix="agentjobs-merge-"))
    (directory / "info").mkdir()
    (directory / "info" / "alternates").write_text(f"{git_dir.absolute() / 'objects'}\n")
    return directory

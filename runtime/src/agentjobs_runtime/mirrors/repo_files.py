"""The files that a worker's directories hold of one repository, for when it is deleted.

Copies in the directory of a running worker are dropped by that worker.
"""

from pathlib import Path

from agentjobs_runtime.files.removal import remove


def remove_repo_files(mirrors: Path, workspaces: Path, repo_id: str) -> None:
    """Blocking. No job may be using the repository."""
    remove(mirrors / f"{repo_id}.git")
    remove(workspaces / "templates" / repo_id)
    for directory in (mirrors, workspaces):
        remove(directory / "locks" / f"{repo_id}.lock")

"""Reads a declared file of a commit. The content is untrusted."""

from pathlib import Path

from agentjobs_runtime.git.blobs import blob_sizes, read_small_blobs
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.trees import REGULAR
from agentjobs_runtime.repo_files.service_files import ServiceFile


class InvalidServiceFile(Exception):
    """The file cannot be read; the message says why, without its name."""


async def read_service_file(
    git_dir: Path, commit: str, file: ServiceFile, max_bytes: int
) -> bytes | None:
    """None if the commit does not have the file. Raises InvalidServiceFile."""
    paths = file.value
    listing = await git("ls-tree", "-z", "--full-tree", commit, "--", *paths, git_dir=git_dir)
    records = (record.partition("\t") for record in listing.stdout.decode().split("\0") if record)
    entries = {path: description.split(" ") for description, _, path in records}
    existing = [entries[path] for path in paths if path in entries]
    if not existing:
        return None
    object_id = next((object_id for mode, _, object_id in existing if mode in REGULAR), None)
    if object_id is None:
        raise InvalidServiceFile("must be a regular file, not a symlink or submodule")
    if (await blob_sizes(git_dir, [object_id]))[0] > max_bytes:
        raise InvalidServiceFile(f"is larger than {max_bytes // 1024} KiB")
    return (await read_small_blobs(git_dir, [object_id]))[0]

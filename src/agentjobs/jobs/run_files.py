"""The directory of one run beside its workspace: there while the run lasts, gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentjobs.workspace.removal import remove


@contextmanager
def run_directory(root: Path, name: str) -> Iterator[Path]:
    """A path that does not exist yet, for whoever prepares the run to make."""
    directory = root / name
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove(directory)
    try:
        yield directory
    finally:
        remove(directory)

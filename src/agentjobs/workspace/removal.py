"""Removes a directory whatever was done to it: no permissions, endless depth, links to anywhere."""

import shutil
import subprocess
from pathlib import Path


def remove(path: Path) -> None:
    """Blocking. Links are removed, never followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        _remove_stubborn(path)


def _remove_stubborn(path: Path) -> None:
    # The coreutils walk by descriptor without recursion, so no depth and no length stops them.
    subprocess.run(
        ["chmod", "-R", "u+rwx", "--", str(path)], stderr=subprocess.DEVNULL, check=False
    )
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)

"""Removes a directory despite missing permissions, extreme depth or links to anywhere."""

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
        _remove_with_coreutils(path)


def _remove_with_coreutils(path: Path) -> None:
    # The coreutils use descriptors and no recursion, so depth and path length do not stop them.
    subprocess.run(
        ["chmod", "-R", "u+rwx", "--", str(path)], stderr=subprocess.DEVNULL, check=False
    )
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)

"""The control group below which kubelet puts pods, in each hierarchy of either version."""

import os
from contextlib import suppress
from pathlib import Path

from tests.kubernetes.namespaces import wait_for


def _hierarchies() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]


def create(name: str) -> None:
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists() and not (hierarchy / "cgroup.controllers").exists():
                (hierarchy / name / file).write_text((hierarchy / file).read_text())


def remove(name: str) -> None:
    for hierarchy in _hierarchies():
        for path, _, _ in os.walk(hierarchy / name, topdown=False):
            wait_for(lambda path=path: _is_removed(Path(path)), f"{path} is still in use", 30)


def _is_removed(cgroup: Path) -> bool:
    """The kernel may still count the last process that ended."""
    with suppress(FileNotFoundError):
        try:
            cgroup.rmdir()
        except OSError:
            return False
    return True

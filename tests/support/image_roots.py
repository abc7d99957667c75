"""The root directory of a small image: busybox and what a test adds."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

BUSYBOX = Path("/bin/busybox")
ACCOUNTS = "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"


def create_image(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for applet in _applets():
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc" / "passwd").write_text(ACCOUNTS)
    return root


def give_image(root: Path, uid: int | None) -> None:
    """All of it, as an unpacked image belongs to one user."""
    if uid is not None:
        for path in (root, *root.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


@cache
def _applets() -> tuple[str, ...]:
    listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, check=True, text=True)
    return tuple(name for name in listed.stdout.split() if name != "busybox")

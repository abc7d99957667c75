"""Describes a directory completely, so that a test can tell whether anything in it changed."""

import hashlib
import os
import stat
from pathlib import Path


def describe_tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Mode, owner, links, times, extended attributes and content of every entry, by path."""
    return {
        str(path.relative_to(root)): _describe(path) for path in sorted([root, *root.rglob("*")])
    }


def _describe(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    attributes = {
        name: os.getxattr(path, name, follow_symlinks=False)
        for name in os.listxattr(path, follow_symlinks=False)
    }
    content = b""
    if stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(path.read_bytes()).digest()
    elif stat.S_ISLNK(status.st_mode):
        content = os.fsencode(path.readlink())
    owner = (status.st_uid, status.st_gid)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_mode, owner, status.st_nlink, status.st_size, times, attributes, content)

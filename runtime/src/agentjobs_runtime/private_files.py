"""Writes small files that only their owner can read, atomically and durably."""

import os
import secrets
from pathlib import Path


def create_private_file(path: Path, content: bytes) -> bool:
    """Never overwrites. False if the file already exists."""
    partial = _write_beside(path, content)
    try:
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    _sync_directory(path.parent)
    return True


def replace_private_file(path: Path, content: bytes) -> None:
    """Readers see the old content or the new one, also after a crash."""
    partial = _write_beside(path, content)
    try:
        partial.replace(path)
    except OSError:
        partial.unlink()
        raise
    _sync_directory(path.parent)


def _write_beside(path: Path, content: bytes) -> Path:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                # A command run as root must not lock out the service's user.
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        partial.unlink()
        raise
    return partial


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Reads a file an agent left behind, and trusts nothing about it."""

import os
import stat
from pathlib import Path


def read_head(path: Path, most_bytes: int) -> bytes | None:
    """None when it is not there, a link, or no regular file."""
    # Not blocking, because opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(most_bytes) if is_regular else None
    except OSError:
        return None

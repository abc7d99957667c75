"""A process of its own that lists what is visible of a layer's lower directory, for tar.

Writes the paths to stdout, separated by NUL. Runs without installed packages.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterator


def main() -> None:
    """The arguments are both directories; the paths that were deleted are on stdin."""
    lower, upper = map(os.fsencode, sys.argv[2:4])
    deleted = frozenset(sys.stdin.buffer.read().split(b"\0"))
    output = sys.stdout.buffer
    for path in visible_paths(lower, upper, deleted):
        output.write(b"./" + path + b"\0")
    output.flush()


def visible_paths(lower: bytes, upper: bytes, deleted: Collection[bytes]) -> Iterator[bytes]:
    """Parents before children. What `upper` has is not listed, but its directories are entered."""
    pending = [b""]
    while pending:
        prefix = pending.pop()
        with os.scandir(lower + b"/" + prefix) as entries:
            for entry in entries:
                path = prefix + entry.name
                if path in deleted:
                    continue
                upper_mode = _mode(upper + b"/" + path)
                if entry.is_dir(follow_symlinks=False):
                    if upper_mode is None or stat.S_ISDIR(upper_mode):
                        pending.append(path + b"/")
                elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                    continue
                if upper_mode is None:
                    yield path


def _mode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None

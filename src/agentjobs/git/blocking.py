"""Reading a tree and its blobs without an event loop, for a process that does nothing else.

The same hardened environment as everywhere; lean to import, and memory stays bounded.
"""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Self

from agentjobs.git.environment import git_environment
from agentjobs.safe_text import mask_unprintable

REGULAR_MODES = frozenset({b"100644", b"100755", b"100664"})

_BATCH = "--batch=%(objecttype) %(objectsize)"
_PIPE_BYTES = 1024 * 1024
_PIECE_BYTES = 1024 * 1024
# A whole pack mapped at once would count as memory of ours.
_CONFIGURATION = {
    "core.packedGitWindowSize": "4m",
    "core.packedGitLimit": "32m",
    "core.deltaBaseCacheLimit": "48m",
}


class GitReadError(Exception):
    """What git said when it could not go on."""


class Change(NamedTuple):
    """A path that differs; `was_file` and `is_file` tell whether it was and is a regular file."""

    path: bytes
    old_blob: bytes
    new_blob: bytes
    was_file: bool
    is_file: bool


class LargeBlob:
    """A blob that is not held at once: its pieces can be read, one time."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._left = size
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            piece = self._stream.read(min(self._left, _PIECE_BYTES))
            if not piece:
                raise EOFError
            self._left -= len(piece)
            yield piece


def list_files(git_dir: Path, commit: str, paths: Sequence[str] = ()) -> list[bytes]:
    """Every regular file of a commit, as `split_record` reads it; no links, no submodules.

    With `paths` only those, which may not be too many for a command.
    """
    listing = _told(_start(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths))
    return [record for record in listing.split(b"\0") if record[:6] in REGULAR_MODES]


def split_record(record: bytes) -> tuple[bytes, bytes]:
    """The path and the blob's name: a record is `100644 blob <name>`, a tab and the path."""
    about, _, path = record.partition(b"\t")
    return path, about[12:]


def begin_changes(git_dir: Path, old: str, new: str) -> "subprocess.Popen[bytes]":
    """How the trees of two commits differ, for `changes_of`; git finds out meanwhile."""
    return _start(
        git_dir,
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"),
        *("--no-ext-diff", "--no-textconv", f"{old}^{{tree}}", f"{new}^{{tree}}"),
    )


def changes_of(listing: "subprocess.Popen[bytes]") -> list[Change]:
    """A rename is a deletion and an addition."""
    report = _told(listing)
    fields = iter(report.split(b"\0"))
    found = []
    for description in fields:
        if description:
            old_mode, new_mode, old_blob, new_blob, _ = description[1:].split(b" ")
            modes = (old_mode in REGULAR_MODES, new_mode in REGULAR_MODES)
            found.append(Change(next(fields), old_blob, new_blob, *modes))
    return found


def read_blobs(
    git_dir: Path, blobs: Sequence[bytes], whole_bytes: int
) -> Iterator[bytes | LargeBlob | None]:
    """Each blob in the order asked; None for one that is not there or that git chokes on."""
    done = 0
    while done < len(blobs):
        with _Batch(git_dir, blobs[done:]) as batch:
            for content in batch.read(whole_bytes):
                done += 1
                yield content
        if done < len(blobs):
            # Git died of this one: broken, or larger than the memory it has. Go on behind it.
            done += 1
            yield None


class _Batch:
    """One `git cat-file --batch`; its questions lie in memory, so that nobody has to feed it."""

    def __init__(self, git_dir: Path, blobs: Sequence[bytes]) -> None:
        self._asked = len(blobs)
        with os.fdopen(os.memfd_create("blobs"), "w+b") as questions:
            questions.write(b"\n".join(blobs) + b"\n")
            questions.seek(0)
            self._process = _start(
                git_dir, "cat-file", _BATCH, "--buffer", stdin=questions.fileno()
            )
        assert self._process.stdout is not None
        self._answers = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._answers.close()
        self._process.wait()

    def read(self, whole_bytes: int) -> Iterator[bytes | LargeBlob | None]:
        """Ends early when git does."""
        readline, read = self._answers.readline, self._answers.read
        for _ in range(self._asked):
            header = readline()
            if not header.endswith(b"\n"):
                return
            kind, _, rest = header.partition(b" ")
            if kind != b"blob":
                # "<name> missing\n"; anything else has content to be skipped.
                for _ in LargeBlob(self._answers, int(rest) + 1) if rest[:-1].isdigit() else ():
                    pass
                yield None
                continue
            size = int(rest)
            if size <= whole_bytes:
                content = read(size)
                if len(read(1)) != 1:
                    return
                yield content
            else:
                large = LargeBlob(self._answers, size)
                yield large
                for _ in large:
                    pass
                if len(read(1)) != 1:
                    return


def _told(process: "subprocess.Popen[bytes]") -> bytes:
    """All that it says, once it has ended."""
    listing, complaint = process.communicate()
    if process.returncode != 0:
        raise GitReadError(_reason(complaint))
    return listing


def _start(
    git_dir: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            ("git", *arguments),
            cwd="/",
            env=git_environment(git_dir=git_dir, configuration=_CONFIGURATION),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stdin == subprocess.DEVNULL else subprocess.DEVNULL,
            bufsize=_PIPE_BYTES,
        )
    except FileNotFoundError:
        raise GitReadError("git is not installed (apt-get install git)") from None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        # A user may have only so much of it; the usual 64 KiB work too.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


def _reason(told: bytes) -> str:
    lines = [line for line in told.decode("utf-8", "replace").splitlines() if line.strip()]
    text = lines[0].split(": ", 1)[-1] if lines else "git gave no reason"
    return mask_unprintable(text)[:500]

"""Reads trees and blobs without an event loop, for a process that does nothing else.

Uses the same hardened environment as `process`, imports quickly and bounds its memory.
"""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Self

from agentjobs_runtime.git.environment import git_environment
from agentjobs_runtime.safe_text import mask_unprintable

REGULAR_MODES = frozenset({b"100644", b"100755", b"100664"})

_BATCH = "--batch=%(objecttype) %(objectsize)"
_PIPE_BYTES = 1024 * 1024
_PIECE_BYTES = 1024 * 1024
# Room for about five million files; a small repository can list billions.
_MAX_LISTING_BYTES = 512 * 1024**2
# A pack that is mapped as a whole would count towards our memory limit.
_CONFIGURATION = {
    "core.packedGitWindowSize": "4m",
    "core.packedGitLimit": "32m",
    "core.deltaBaseCacheLimit": "48m",
}


class GitReadError(Exception):
    """Git failed; the message is its reason."""


class LargeBlob:
    """A blob that is too large to hold in memory. Its pieces can be read once."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._remaining = size
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        while self._remaining:
            piece = self._stream.read(min(self._remaining, _PIECE_BYTES))
            if not piece:
                raise EOFError
            self._remaining -= len(piece)
            yield piece


def list_files(git_dir: Path, commit: str) -> list[bytes]:
    """Records of every regular file of a commit, for `split_record`; no links, no submodules."""
    listing = _read_output(_start(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit, "--"))
    return [record for record in listing.split(b"\0") if record[:6] in REGULAR_MODES]


def split_record(record: bytes) -> tuple[bytes, bytes]:
    """The path and the blob id of a record, which is `100644 blob <id>`, a tab and the path."""
    description, _, path = record.partition(b"\t")
    return path, description[12:]


def read_blobs(
    git_dir: Path, blobs: Sequence[bytes], whole_bytes: int
) -> Iterator[bytes | LargeBlob | None]:
    """Each blob in order; None for a missing one or one that makes git fail."""
    position = 0
    while position < len(blobs):
        with _Batch(git_dir, blobs[position:]) as batch:
            for content in batch.read(whole_bytes):
                position += 1
                yield content
        if position < len(blobs):
            # This blob made git die: it is corrupt or exceeds its memory. Continue after it.
            position += 1
            yield None


class _Batch:
    """One `git cat-file --batch`, which reads its input from a memory file."""

    def __init__(self, git_dir: Path, blobs: Sequence[bytes]) -> None:
        self._count = len(blobs)
        with os.fdopen(os.memfd_create("blobs"), "w+b") as input_file:
            input_file.write(b"\n".join(blobs) + b"\n")
            input_file.seek(0)
            self._process = _start(
                git_dir, "cat-file", _BATCH, "--buffer", stdin=input_file.fileno()
            )
        assert self._process.stdout is not None
        self._output = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._output.close()
        self._process.wait()

    def read(self, whole_bytes: int) -> Iterator[bytes | LargeBlob | None]:
        """Ends early if git does."""
        readline, read = self._output.readline, self._output.read
        for _ in range(self._count):
            header = readline()
            if not header.endswith(b"\n"):
                return
            kind, _, rest = header.partition(b" ")
            if kind != b"blob":
                # "<id> missing\n"; any other type has content to skip.
                for _ in LargeBlob(self._output, int(rest) + 1) if rest[:-1].isdigit() else ():
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
                large = LargeBlob(self._output, size)
                yield large
                for _ in large:
                    pass
                if len(read(1)) != 1:
                    return


def _read_output(process: "subprocess.Popen[bytes]") -> bytes:
    """Wait for its end and return its output."""
    assert process.stdout is not None
    pieces: list[bytes] = []
    while piece := process.stdout.read(_PIECE_BYTES):
        pieces.append(piece)
        if len(pieces) * _PIECE_BYTES > _MAX_LISTING_BYTES:
            process.kill()
            process.communicate()
            raise GitReadError(f"its list of files exceeds {_MAX_LISTING_BYTES // 1024**2} MiB")
    _, stderr = process.communicate()
    if process.returncode != 0:
        raise GitReadError(_reason(stderr))
    return b"".join(pieces)


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
        # The kernel limits pipe memory per user; the default of 64 KiB works too.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


def _reason(stderr: bytes) -> str:
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    text = lines[0].split(": ", 1)[-1] if lines else "git gave no reason"
    return mask_unprintable(text)[:500]

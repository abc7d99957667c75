"""Reads the artifacts that an agent left. Trusts nothing about them."""

import itertools
import os
import re
import stat
from pathlib import Path

import msgspec

from agentjobs_runtime.safe_text import ellipsize, escape_unprintable
from agentjobs_runtime.sandboxes.directories import ARTIFACTS_DIRECTORY

MAX_ARTIFACTS = 50
MAX_ARTIFACT_BYTES = 10 * 1024**2
MAX_TOTAL_BYTES = 32 * 1024**2
ARTIFACT_NAME = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
TEXT = "text/plain"
IMAGES = ("image/png", "image/jpeg", "image/webp")

# Further names are not read.
_MAX_ENTRIES = 10_000
_MAX_NAME_CHARACTERS = 60
_NOT_READABLE = "not a regular file, or not readable"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_is_name = re.compile(ARTIFACT_NAME).fullmatch


class Artifact(msgspec.Struct, frozen=True):
    name: str
    content: bytes

    @property
    def media_type(self) -> str:
        return detect_media_type(self.content)


class Artifacts(msgspec.Struct, frozen=True):
    """`left_out` says which files were not read, and why."""

    files: tuple[Artifact, ...] = ()
    left_out: tuple[str, ...] = ()


def read_artifacts(run_dir: Path) -> Artifacts:
    """Blocking. Reads files in the directory itself, in the order of their names."""
    try:
        directory = os.open(run_dir / ARTIFACTS_DIRECTORY, _READ | os.O_DIRECTORY)
    except OSError:
        # Without a sandbox, an agent can replace the directory.
        return Artifacts()
    try:
        return _read_all(directory)
    finally:
        os.close(directory)


def detect_media_type(content: bytes) -> str:
    """The type by the content, because the agent chooses the name."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return TEXT


def _read_all(directory: int) -> Artifacts:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, _MAX_ENTRIES))
    files: list[Artifact] = []
    left_out: list[str] = []
    bytes_left = MAX_TOTAL_BYTES
    for name in names:
        if len(files) == MAX_ARTIFACTS:
            content, reason = None, f"more than {MAX_ARTIFACTS} files"
        else:
            content, reason = _read_file(directory, name, bytes_left)
        if content is None:
            left_out.append(f"{_printable(name)} ({reason})")
        else:
            files.append(Artifact(name, content))
            bytes_left -= len(content)
    return Artifacts(tuple(files), tuple(left_out))


def _read_file(directory: int, name: str, bytes_left: int) -> tuple[bytes | None, str]:
    """The content, or None and the reason."""
    if not _is_name(name):
        return None, "its name may only have letters, digits, `.`, `_` and `-`"
    try:
        # Non-blocking, because opening a FIFO would wait for a writer.
        descriptor = os.open(name, _READ | os.O_NONBLOCK, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None, _NOT_READABLE
            limit, reason = MAX_ARTIFACT_BYTES, f"larger than {_mib(MAX_ARTIFACT_BYTES)}"
            if bytes_left < limit:
                limit, reason = bytes_left, f"more than {_mib(MAX_TOTAL_BYTES)} in total"
            content = file.read(limit + 1) if status.st_size <= limit else None
            too_large = content is None or len(content) > limit
            return (None, reason) if too_large else (content, "")
    except OSError:
        return None, _NOT_READABLE


def _mib(count: int) -> str:
    return f"{count // 1024**2} MiB"


def _printable(name: str) -> str:
    text = os.fsencode(name).decode("utf-8", "replace")
    return ellipsize(escape_unprintable(text), _MAX_NAME_CHARACTERS)

"""Whether an agent's program can run in an image, which has its own files and libraries.

Reads untrusted files without following links out of the image.
"""

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MAX_LINKS = 40
_HEAD_BYTES = 64 * 1024
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PT_INTERP = 3


def find_program(root: Path, name: str, path: str | None) -> str | None:
    """The absolute path, inside the image, of a program in its `PATH`."""
    for directory in (path or _DEFAULT_PATH).split(":"):
        inside = PurePosixPath(directory or "/", name)
        file = resolve(root, inside)
        if file is not None and file.is_file() and file.stat().st_mode & 0o111:
            return str(inside)
    return None


def missing_interpreter(root: Path, program: Path, path: str | None) -> str | None:
    """What the image lacks to run a program of the worker; None if it may run."""
    with program.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    interpreter = _shebang(head) or _elf_interpreter(head)
    if interpreter is None:
        return None
    if interpreter.startswith("/"):
        resolved = resolve(root, PurePosixPath(interpreter))
        return None if resolved is not None and resolved.is_file() else interpreter
    return None if find_program(root, interpreter, path) else interpreter


def resolve(root: Path, inside: PurePosixPath) -> Path | None:
    """The file below `root` that a path of the image leads to; None if there is none."""
    parts = list(reversed(_parts(inside)))
    current, links = root, 0
    while parts:
        part = parts.pop()
        if part == "..":
            current = current if current == root else current.parent
            continue
        entry = current / part
        try:
            mode = entry.lstat().st_mode
            if not stat.S_ISLNK(mode):
                current = entry
                continue
            target = PurePosixPath(os.readlink(entry))  # noqa: PTH115 - not a path of this machine
        except OSError:
            return None
        links += 1
        if links > _MAX_LINKS:
            return None
        parts += reversed(_parts(target))
        if target.is_absolute():
            current = root
    return current


def _parts(path: PurePosixPath) -> list[str]:
    return [part for part in path.parts if part not in ("/", "//")]


def _shebang(head: bytes) -> str | None:
    """The interpreter of a script, or the program that `env` starts."""
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if not words:
        return None
    if PurePosixPath(words[0]).name == "env":
        words = [word for word in words if not word.startswith("-") and "=" not in word]
        return words[1] if len(words) > 1 else None
    return words[0]


def _elf_interpreter(head: bytes) -> str | None:
    """None for a static program, and for anything but a 64-bit little-endian ELF file."""
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    for kind, offset, size in _program_headers(head):
        if kind == _PT_INTERP:
            return head[offset : offset + size].rstrip(b"\0").decode("utf-8", "replace") or None
    return None


def _program_headers(head: bytes) -> Iterator[tuple[int, int, int]]:
    try:
        (start,) = struct.unpack_from("<Q", head, 32)
        entry_size, count = struct.unpack_from("<HH", head, 54)
        for index in range(count):
            at = start + index * entry_size
            (kind,) = struct.unpack_from("<I", head, at)
            (offset,) = struct.unpack_from("<Q", head, at + 8)
            (size,) = struct.unpack_from("<Q", head, at + 32)
            yield kind, offset, size
    except struct.error:
        return

"""Small repositories and packs that expand to enormous ones."""

import hashlib
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.workspace import ENVIRONMENT, run_git

_BLOB, _OFFSET_DELTA = 3, 6


def commit_tree_bomb(clone: Path, *, levels: int, width: int, file_bytes: int = 1) -> str:
    """A commit whose tree lists `width` files, `width` times per level; pushed to `main`."""
    blob = _write(clone, b"x" * file_bytes, "hash-object", "-w", "--stdin")
    tree = _tree(clone, "100644 blob", blob, width)
    for _ in range(levels):
        tree = _tree(clone, "040000 tree", tree, width)
    commit = run_git(clone, "commit-tree", "-m", "bomb", tree)
    run_git(clone, "push", "-q", "--force", "origin", f"{commit}:refs/heads/main")
    return commit


def commit_attribute_bomb(clone: Path, *, files: int, keywords: int) -> str:
    """A commit whose attributes write 37 bytes for each byte that git stores; pushed to `main`."""
    attributes = _write(
        clone, b"* ident working-tree-encoding=UTF-32\n", "hash-object", "-w", "--stdin"
    )
    blob = _write(clone, b"$Id$\n" * keywords, "hash-object", "-w", "--stdin")
    directory = _tree(clone, "100644 blob", blob, files)
    entries = f"100644 blob {attributes}\t.gitattributes\n040000 tree {directory}\tentries\n"
    tree = _write(clone, entries.encode(), "mktree")
    commit = run_git(clone, "commit-tree", "-m", "bomb", tree)
    run_git(clone, "push", "-q", "--force", "origin", f"{commit}:refs/heads/main")
    return commit


def delta_bomb_pack(*, objects: int, object_bytes: int) -> bytes:
    """A pack of blobs of `object_bytes` each: deltas that copy one small blob many times."""
    base = bytes(1024 * 1024)
    packed = bytearray(struct.pack(">4sII", b"PACK", 2, objects + 1))
    base_offset = len(packed)
    packed += _head(_BLOB, len(base)) + zlib.compress(base, 9)
    for number in range(objects):
        delta = b"".join(_delta(len(base), object_bytes, number))
        offset = len(packed)
        packed += _head(_OFFSET_DELTA, len(delta))
        packed += _distance(offset - base_offset) + zlib.compress(delta, 9)
    return bytes(packed) + hashlib.sha1(packed).digest()


def _tree(clone: Path, kind: str, object_id: str, width: int) -> str:
    entries = "".join(f"{kind} {object_id}\tentry{number:04}\n" for number in range(width))
    return _write(clone, entries.encode(), "mktree")


def _write(clone: Path, content: bytes, *arguments: str) -> str:
    command = ["git", *arguments]
    result = subprocess.run(
        command, cwd=clone, env=ENVIRONMENT, input=content, stdout=subprocess.PIPE, check=True
    )
    return result.stdout.decode("ascii").strip()


def _delta(base_bytes: int, result_bytes: int, number: int) -> Iterator[bytes]:
    """Copies of the base, and a number that makes the object unique."""
    unique = struct.pack(">I", number)
    yield _size(base_bytes)
    yield _size(result_bytes // base_bytes * base_bytes + len(unique))
    # The base fits one copy: offset 0, three bytes of size.
    copy = b"\xf0" + struct.pack("<I", base_bytes)[:3]
    yield copy * (result_bytes // base_bytes)
    yield bytes([len(unique)]) + unique


def _size(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _head(kind: int, size: int) -> bytes:
    first = kind << 4 | size & 0x0F
    size >>= 4
    return bytes([first | (0x80 if size else 0)]) + (_size(size) if size else b"")


def _distance(value: int) -> bytes:
    encoded = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        encoded.append(value & 0x7F | 0x80)
    return bytes(reversed(encoded))

"""A process of its own that applies what a hostile pod says has changed to a directory.

On stdin are the paths that were deleted, each with a NUL at its end, an empty path, and an archive.
The response goes to stdout. It runs without installed packages, and has limits that the kernel
enforces.
"""

import io
import json
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, TypedDict

from agentjobs_kubernetes.hostile_tree import HostileTree
from agentjobs_kubernetes.tar_stream import (
    MAX_PATH_BYTES,
    ArchiveRefused,
    TarStream,
    split_path,
)

MAX_ENTRIES = 2_000_000
CPU_SECONDS = 900
_MEMORY_BYTES = 512 * 1024**2
_OPEN_FILES = 4_096
_BUFFER_BYTES = 256 * 1024
# Directories are removed by recursion.
_MAX_RECURSION = MAX_PATH_BYTES + 100


class ArchiveRequest(TypedDict):
    """0 means no limit. `deleted` is a file with the paths of `lower` that were deleted."""

    target: str
    lower: str
    deleted: str
    max_bytes: int
    max_file_bytes: int
    entry_bytes: int


class ArchiveResponse(TypedDict, total=False):
    """`refused` says what is wrong with the archive, `error` what with the worker's disk."""

    entries: int
    used_bytes: int
    is_too_large: bool
    refused: str
    error: str
    error_number: int


def main() -> None:
    request: ArchiveRequest = json.loads(sys.argv[2])
    _limit_resources(request)
    changes = io.BufferedReader(io.FileIO(sys.stdin.fileno()), _BUFFER_BYTES)
    json.dump(apply_changes(request, changes), sys.stdout)


def apply_changes(request: ArchiveRequest, changes: "io.BufferedReader[Any]") -> ArchiveResponse:
    try:
        tree = HostileTree(request["target"], request["lower"])
        try:
            _delete(tree, changes, request["deleted"])
            return _extract(tree, changes, request)
        finally:
            tree.close()
    except ArchiveRefused as error:
        return {"refused": str(error)}
    except OSError as error:
        return {"error": error.strerror or str(error), "error_number": error.errno or 0}


def _extract(tree: HostileTree, archive: BinaryIO, request: ArchiveRequest) -> ArchiveResponse:
    max_bytes, entry_bytes = request["max_bytes"], request["entry_bytes"]
    entries = content_bytes = 0
    stream = TarStream(archive)
    for entry in stream:
        entries += 1
        content_bytes += entry.size
        files = entries + tree.created_parents
        if max_bytes and content_bytes + files * entry_bytes > max_bytes:
            return {"is_too_large": True}
        if request["max_file_bytes"] and entry.size > request["max_file_bytes"]:
            raise ArchiveRefused("a file is larger than files may be")
        if files > MAX_ENTRIES:
            raise ArchiveRefused(f"it has more than {MAX_ENTRIES:,} entries")
        tree.write(entry, stream.content())
    used_bytes = content_bytes + (entries + tree.created_parents) * entry_bytes
    return {"entries": entries, "used_bytes": used_bytes}


def _delete(tree: HostileTree, changes: "io.BufferedReader[Any]", record: str) -> None:
    """Remember those of the lower directory: a path stands for all that is below it."""
    deleted = set(_load_deleted(record)) if record else set()
    known = len(deleted)
    for number, path in enumerate(_paths(changes)):
        if number == MAX_ENTRIES:
            raise ArchiveRefused(f"it deletes more than {MAX_ENTRIES:,} files")
        parts = split_path(path)
        tree.remove(parts)
        if record and not _is_covered(parts, deleted) and tree.is_in_lower(parts):
            deleted.add(b"/".join(parts))
    if len(deleted) > known:
        _store_deleted(record, deleted)


def _paths(changes: "io.BufferedReader[Any]") -> Iterator[bytes]:
    """Reads up to the empty path after the last one."""
    pending = b""
    while chunk := changes.peek():
        *paths, rest = (pending + chunk).split(b"\0")
        if b"" in paths:
            paths = paths[: paths.index(b"")]
            changes.read(sum(map(len, paths)) + len(paths) + 1 - len(pending))
            yield from paths
            return
        changes.read(len(chunk))
        yield from paths
        pending = rest
        if len(pending) > MAX_PATH_BYTES:
            raise ArchiveRefused("a path is too long")
    raise ArchiveRefused("its list of deleted files ends too early")


def _is_covered(parts: tuple[bytes, ...], deleted: set[bytes]) -> bool:
    return any(b"/".join(parts[:count]) in deleted for count in range(1, len(parts) + 1))


def _load_deleted(record: str) -> list[bytes]:
    try:
        with open(record, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            return file.read().split(b"\0")
    except FileNotFoundError:
        return []


def _store_deleted(record: str, paths: set[bytes]) -> None:
    with open(f"{record}.new", "wb") as file:  # noqa: PTH123 - pathlib takes long to import
        file.write(b"\0".join(sorted(paths)))
    os.replace(f"{record}.new", record)  # noqa: PTH105 - the same


def _limit_resources(request: ArchiveRequest) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_DATA: _MEMORY_BYTES,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
    }
    if request["max_file_bytes"]:
        limits[resource.RLIMIT_FSIZE] = request["max_file_bytes"]
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (soft, hard))
    sys.setrecursionlimit(_MAX_RECURSION)

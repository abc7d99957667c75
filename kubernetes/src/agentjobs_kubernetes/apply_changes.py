"""A process of its own that applies what a hostile pod says has changed to a directory.

The changes are on stdin, the response goes to stdout. It runs without installed packages, and has
limits that the kernel enforces.
"""

import json
import os
import resource
import sys
from typing import BinaryIO, TypedDict

from agentjobs_kubernetes.change_stream import (
    MAX_PATH_BYTES,
    REMOVED,
    ChangesRefused,
    ChangeStream,
)
from agentjobs_kubernetes.hostile_tree import HostileTree

MAX_ENTRIES = 2_000_000
CPU_SECONDS = 900
_MEMORY_BYTES = 512 * 1024**2
_OPEN_FILES = 4_096
_BUFFER_BYTES = 256 * 1024
# Directories are removed by recursion.
_MAX_RECURSION = MAX_PATH_BYTES + 100


class ChangesRequest(TypedDict):
    """0 means no limit. `deleted` is a file with the paths of `lower` that were deleted."""

    target: str
    lower: str
    deleted: str
    max_bytes: int
    max_file_bytes: int
    entry_bytes: int


class ChangesResponse(TypedDict, total=False):
    """`refused` says what is wrong with the changes, `error` what with the worker's disk."""

    entries: int
    used_bytes: int
    is_too_large: bool
    refused: str
    error: str
    error_number: int


def main() -> None:
    request: ChangesRequest = json.loads(sys.argv[2])
    _limit_resources(request)
    changes = os.fdopen(sys.stdin.fileno(), "rb", _BUFFER_BYTES)
    json.dump(apply_changes(request, changes), sys.stdout)


def apply_changes(request: ChangesRequest, changes: BinaryIO) -> ChangesResponse:
    try:
        tree = HostileTree(request["target"], request["lower"])
        try:
            return _apply(tree, ChangeStream(changes), request)
        finally:
            tree.close()
    except ChangesRefused as error:
        return {"refused": str(error)}
    except OSError as error:
        return {"error": error.strerror or str(error), "error_number": error.errno or 0}


def _apply(tree: HostileTree, stream: ChangeStream, request: ChangesRequest) -> ChangesResponse:
    entries = content_bytes = 0
    deleted = _load_deleted(request["deleted"])
    known = len(deleted)
    for number, change in enumerate(stream):
        if number + tree.created_parents >= MAX_ENTRIES:
            raise ChangesRefused(f"it has more than {MAX_ENTRIES:,} entries")
        if change.kind == REMOVED:
            tree.remove(change.parts)
            if tree.is_in_lower(change.parts) and not _is_covered(change.parts, deleted):
                deleted.add(b"/".join(change.parts))
            continue
        entries += 1
        content_bytes += change.size
        used_bytes = content_bytes + (entries + tree.created_parents) * request["entry_bytes"]
        if request["max_bytes"] and used_bytes > request["max_bytes"]:
            return {"is_too_large": True}
        if request["max_file_bytes"] and change.size > request["max_file_bytes"]:
            raise ChangesRefused("a file is larger than files may be")
        tree.write(change, stream.content())
    if len(deleted) > known:
        _store_deleted(request["deleted"], deleted)
    used_bytes = content_bytes + (entries + tree.created_parents) * request["entry_bytes"]
    return {"entries": entries, "used_bytes": used_bytes}


def _is_covered(parts: tuple[bytes, ...], deleted: set[bytes]) -> bool:
    return any(b"/".join(parts[:count]) in deleted for count in range(1, len(parts) + 1))


def _load_deleted(record: str) -> set[bytes]:
    try:
        with open(record, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            return set(file.read().split(b"\0"))
    except FileNotFoundError:
        return set()


def _store_deleted(record: str, paths: set[bytes]) -> None:
    with open(f"{record}.new", "wb") as file:  # noqa: PTH123 - pathlib takes long to import
        file.write(b"\0".join(sorted(paths)))
    os.replace(f"{record}.new", record)  # noqa: PTH105 - the same


def _limit_resources(request: ChangesRequest) -> None:
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

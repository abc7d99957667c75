"""Snapshots on a worker's disk: what setup left in the home directory and the workspace.

A snapshot appears by one rename and never changes. The sandbox puts a writable layer over it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs_runtime.files.locks import borrow, take, try_lock
from agentjobs_runtime.files.removal import remove
from agentjobs_worker.workspace.session import Session

# Below the data directory.
SNAPSHOTS = Path("environments", "snapshots")
HOME = "home"
WORKSPACE = "workspace"
_DESCRIPTION = "snapshot.json"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`owner_uid` owns its files; None: the service's user. `images` maps references to digests."""

    build_id: str
    organization_id: str
    repo_id: str
    request_key: str
    key: str
    images: dict[str, str]
    owner_uid: int | None
    size_bytes: int
    created_at: int


class StoredSnapshot(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    directory: Path
    used_at_ns: int

    @property
    def home(self) -> Path:
        return self.directory / HOME

    @property
    def workspace(self) -> Path:
        return self.directory / WORKSPACE


class Snapshots:
    """All methods block for milliseconds, except `remove`."""

    def __init__(self, root: Path, session: Session) -> None:
        self._root = root
        self._session = session

    def add(self, directory: Path, snapshot: Snapshot) -> None:
        """`directory` is of the session and has the directories `home` and `workspace`."""
        (directory / _DESCRIPTION).write_bytes(msgspec.json.encode(snapshot))
        parent = self._root / snapshot.repo_id
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.rename(parent / snapshot.build_id)

    @contextlib.contextmanager
    def borrow(self, repo_id: str, build_id: str) -> Iterator[StoredSnapshot | None]:
        """It is not removed meanwhile. None if it does not exist."""
        directory = self._root / repo_id / build_id
        with borrow(directory) as exists:
            yield _load(directory) if exists else None

    def find(self, repo_id: str) -> list[StoredSnapshot]:
        """Snapshots of a repository."""
        directories = _entries(self._root / repo_id)
        return [stored for path in directories if (stored := _load(path)) is not None]

    def all(self) -> list[StoredSnapshot]:
        return [stored for repo in _entries(self._root) for stored in self.find(repo.name)]

    def remove(self, stored: StoredSnapshot) -> bool:
        """Blocking, for seconds. False if it is in use or already gone."""
        trash = self._session.new_directory()
        is_taken = take(stored.directory, trash / "removed")
        remove(trash)
        if not is_taken:
            return False
        with contextlib.suppress(OSError):
            stored.directory.parent.rmdir()
        return True


def remove_repo_snapshots(root: Path, repo_id: str) -> None:
    """Blocking. Snapshots in use stay; the worker that uses them removes them."""
    for directory in _entries(root / repo_id):
        if (lock := try_lock(directory)) is not None:
            remove(directory)
            os.close(lock)
    with contextlib.suppress(OSError):
        (root / repo_id).rmdir()


def _load(directory: Path) -> StoredSnapshot | None:
    """None if it was removed meanwhile."""
    try:
        content = (directory / _DESCRIPTION).read_bytes()
        used_at_ns = directory.stat().st_mtime_ns
    except OSError:
        return None
    return StoredSnapshot(msgspec.json.decode(content, type=Snapshot), directory, used_at_ns)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []

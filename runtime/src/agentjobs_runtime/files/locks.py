"""Locks between processes that share a data directory. A process that dies releases its locks.

A lock belongs to an open file, so two holders in one process exclude each other as well.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

POLL_SECONDS = 0.02


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Lock a file or directory without waiting; None if it is missing, unreadable or locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if not _is_same_file(path, descriptor):
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def borrow(path: Path) -> Iterator[bool]:
    """Whether it exists. Nobody takes it meanwhile, and it counts as used now."""
    descriptor = try_lock(path, shared=True)
    if descriptor is None:
        yield False
        return
    try:
        os.utime(descriptor)
        yield True
    finally:
        os.close(descriptor)


def take(path: Path, target: Path) -> bool:
    """Move a file or directory; False if it is borrowed or gone."""
    descriptor = try_lock(path)
    if descriptor is None:
        return False
    try:
        path.rename(target)
    finally:
        os.close(descriptor)
    return True


@contextmanager
def blocking_lock(path: Path) -> Iterator[None]:
    """Wait for a lock file. Only for critical sections of microseconds."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class KeyedLocks:
    """One exclusive lock per key, between tasks and between processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._task_locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        async with self._task_locks.setdefault(key, asyncio.Lock()):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._directory / f"{key}.lock"
            file.touch(mode=0o600)
            # The holder is another process, which cannot set an event here.
            while (descriptor := try_lock(file)) is None:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
            try:
                yield
            finally:
                os.close(descriptor)


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Whether the path still is the locked file: it may have been moved in between."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

"""Copies a bare repository during pushes and repacks, and verifies the copy."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from agentjobs.git.process import git
from agentjobs.store.database import StoreError

_MAX_ROUNDS = 20
_CHECK_SECONDS = 3600.0
_REFS = ("refs", "packed-refs")
_UNFINISHED = "*.lock"
# Incoming objects, and caches that git replaces in place and that may name packs since removed.
_SKIPPED_OBJECTS = ("tmp_*", "incoming-*", "multi-pack-index*", "commit-graph*")
_SKIPPED_ENTRIES = ("gc.pid", *_REFS, "objects")

Snapshot = dict[str, tuple[int, int, int]]


async def copy_repository(source: Path, target: Path) -> None:
    await asyncio.to_thread(_copy, source, target)
    check = await git(
        *("fsck", "--connectivity-only", "--no-dangling", "--no-progress"),
        git_dir=target,
        timeout_seconds=_CHECK_SECONDS,
        allowed_exit_codes=range(256),
    )
    if check.exit_code != 0:
        output = (check.stdout.decode("utf-8", "replace") + check.stderr).splitlines()
        missing = [line for line in output if line.startswith("missing ")]
        reason = next(iter((*missing, *output)), "no reason given")
        raise StoreError(
            f"the copy of {source} is incomplete ({reason}), so nothing was changed. Try again; if"
            " this persists, run `git fsck` in that directory"
        )


def _copy(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for entry in sorted(source.iterdir()):
        if entry.name not in _SKIPPED_ENTRIES:
            _copy_entry(entry, target / entry.name)
    before = _snapshot(source)
    # With constant pushes two listings may never be equal; fsck then decides.
    for _ in range(_MAX_ROUNDS):
        _copy_refs(source, target)
        _copy_objects(source / "objects", target / "objects")
        after = _snapshot(source)
        if after == before:
            return
        before = after


def _copy_refs(source: Path, target: Path) -> None:
    """Refs before objects in each round, so that the objects of each ref are copied after it."""
    shutil.rmtree(target / "refs", ignore_errors=True)
    (target / "packed-refs").unlink(missing_ok=True)
    # Loose before packed, so that a ref packed in between is still found.
    for name in _REFS:
        _copy_entry(source / name, target / name)
    (target / "refs").mkdir(exist_ok=True)


def _copy_entry(source: Path, target: Path) -> None:
    if fnmatch(source.name, _UNFINISHED):
        return
    # Files may be packed, replaced or removed at any time.
    with contextlib.suppress(FileNotFoundError):
        if not source.is_dir():
            shutil.copyfile(source, target)
            return
        target.mkdir(exist_ok=True)
        for entry in sorted(source.iterdir()):
            _copy_entry(entry, target / entry.name)


def _copy_objects(source: Path, target: Path) -> None:
    """Only missing files: objects and packs never change."""
    target.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(source.iterdir(), key=_packs_last):
            if _is_skipped_object(entry.name):
                continue
            copy = target / entry.name
            if entry.is_dir():
                _copy_objects(entry, copy)
            elif not copy.exists():
                _copy_file(entry, copy)


def _packs_last(entry: Path) -> tuple[bool, bool, str]:
    """Loose objects before packs, as with refs; a pack before its index, which makes it visible."""
    return entry.name == "pack", entry.suffix != ".pack", entry.name


def _copy_file(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def _is_skipped_object(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in (_UNFINISHED, *_SKIPPED_OBJECTS))


def _snapshot(source: Path) -> Snapshot:
    """Identifies the versions of all packs and refs, which git replaces as whole files."""
    snapshot: Snapshot = {}
    for entry in (*_packs(source), *_refs(source)):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat()
            snapshot[str(entry)] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return snapshot


def _packs(source: Path) -> Iterator[Path]:
    for entry in (source / "objects" / "pack").glob("*"):
        if not _is_skipped_object(entry.name):
            yield entry


def _refs(source: Path) -> Iterator[Path]:
    yield source / "packed-refs"
    for entry in (source / "refs").rglob("*"):
        if not fnmatch(entry.name, _UNFINISHED) and not entry.is_dir():
            yield entry

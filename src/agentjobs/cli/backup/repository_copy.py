"""Copies a bare repository that others push to and git tidies meanwhile, and proves the copy.

Knows git's files. Refuses to know whose repository it is.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from agentjobs.git.process import git
from agentjobs.store.database import StoreError

_MOST_ROUNDS = 20
_CHECK_SECONDS = 3600.0
_REFS = ("refs", "packed-refs")
_UNFINISHED = "*.lock"
# Among the objects: what is still being received, and what git makes anew from the packs. The
# latter is replaced under its old name, and would speak of packs that are gone.
_NOT_OBJECTS = ("tmp_*", "incoming-*", "multi-pack-index*", "commit-graph*")
_NOT_COPIED = ("gc.pid", *_REFS, "objects")

Listing = dict[str, tuple[int, int, int]]


async def copy_repository(source: Path, target: Path) -> None:
    await asyncio.to_thread(_copy, source, target)
    checked = await git(
        *("fsck", "--connectivity-only", "--no-dangling", "--no-progress"),
        git_dir=target,
        timeout_seconds=_CHECK_SECONDS,
        allowed_exit_codes=range(256),
    )
    if checked.exit_code != 0:
        said = (checked.stdout.decode("utf-8", "replace") + checked.stderr).splitlines()
        missing = [line for line in said if line.startswith("missing ")]
        reason = next(iter((*missing, *said)), "no reason given")
        raise StoreError(
            f"the copy of {source} is not complete ({reason});"
            " no backup was made. Try again, and if this stays, run `git fsck` in that directory"
        )


def _copy(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for entry in sorted(source.iterdir()):
        if entry.name not in _NOT_COPIED:
            _copy_entry(entry, target / entry.name)
    before = _listing(source)
    # Whoever pushes all the time never lets two listings agree; the check has the last word.
    for _ in range(_MOST_ROUNDS):
        _copy_refs(source, target)
        _copy_objects(source / "objects", target / "objects")
        after = _listing(source)
        if after == before:
            return
        before = after


def _copy_refs(source: Path, target: Path) -> None:
    """Afresh in each round, before the objects: what a ref names is copied after it."""
    shutil.rmtree(target / "refs", ignore_errors=True)
    (target / "packed-refs").unlink(missing_ok=True)
    # Loose before packed: what git packs in between is found there.
    for name in _REFS:
        _copy_entry(source / name, target / name)
    (target / "refs").mkdir(exist_ok=True)


def _copy_entry(source: Path, target: Path) -> None:
    if fnmatch(source.name, _UNFINISHED):
        return
    # Something may be packed, replaced or removed while it is copied.
    with contextlib.suppress(FileNotFoundError):
        if not source.is_dir():
            shutil.copyfile(source, target)
            return
        target.mkdir(exist_ok=True)
        for entry in sorted(source.iterdir()):
            _copy_entry(entry, target / entry.name)


def _copy_objects(source: Path, target: Path) -> None:
    """What is not there yet: an object or a pack never changes under its name."""
    target.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(source.iterdir(), key=_packs_last):
            if _is_no_object(entry.name):
                continue
            copy = target / entry.name
            if entry.is_dir():
                _copy_objects(entry, copy)
            elif not copy.exists():
                _copy_whole(entry, copy)


def _packs_last(entry: Path) -> tuple[bool, bool, str]:
    """Loose before packed, as with refs; a pack before its index, without which it is not read."""
    return entry.name == "pack", entry.suffix != ".pack", entry.name


def _copy_whole(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def _is_no_object(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in (_UNFINISHED, *_NOT_OBJECTS))


def _listing(source: Path) -> Listing:
    """The packs and the refs; each file of which git replaces as a whole."""
    found: Listing = {}
    for entry in (*_packs(source), *_refs(source)):
        with contextlib.suppress(FileNotFoundError):
            facts = entry.stat()
            found[str(entry)] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


def _packs(source: Path) -> Iterator[Path]:
    for entry in (source / "objects" / "pack").glob("*"):
        if not _is_no_object(entry.name):
            yield entry


def _refs(source: Path) -> Iterator[Path]:
    yield source / "packed-refs"
    for entry in (source / "refs").rglob("*"):
        if not fnmatch(entry.name, _UNFINISHED) and not entry.is_dir():
            yield entry

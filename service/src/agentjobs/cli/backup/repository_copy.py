"""Copies a bare repository during pushes and repacks, and verifies the copy."""

import asyncio
import contextlib
import shutil
from fnmatch import fnmatch
from pathlib import Path

from agentjobs.store.database import StoreError
from agentjobs_runtime.git.process import git

# With constant pushes the packs may never stay the same; fsck then decides.
_MAX_ROUNDS = 20
_CHECK_SECONDS = 3600.0
_REFS = ("refs", "packed-refs")
_SEPARATE = (*_REFS, "objects", "gc.pid")
# Unfinished files, and caches that git replaces in place and that may name packs since removed.
_SKIPPED = ("*.lock",)
_SKIPPED_OBJECTS = (*_SKIPPED, "tmp_*", "incoming-*", "multi-pack-index*", "commit-graph*")


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
    """Again if git made other packs meanwhile, which replace files that were not copied yet."""
    for _ in range(_MAX_ROUNDS):
        packs = _pack_names(source)
        _copy_once(source, target)
        if _pack_names(source) == packs:
            return


def _pack_names(repository: Path) -> set[str]:
    return {path.name for path in (repository / "objects" / "pack").glob("*.pack")}


def _copy_once(source: Path, target: Path) -> None:
    """Refs before objects, so that the objects of each ref are copied after it. Loose refs and
    objects before packed ones, so that what is packed in between is still found."""
    target.mkdir(mode=0o700, exist_ok=True)
    shutil.rmtree(target / "refs", ignore_errors=True)
    (target / "packed-refs").unlink(missing_ok=True)
    others = [entry.name for entry in source.iterdir() if entry.name not in _SEPARATE]
    for name in (*_REFS, *others):
        _copy_entry(source / name, target / name, _SKIPPED)
    (target / "refs").mkdir(exist_ok=True)
    _copy_entry(source / "objects", target / "objects", _SKIPPED_OBJECTS, keep_existing=True)


def _copy_entry(
    source: Path, target: Path, skipped: tuple[str, ...], *, keep_existing: bool = False
) -> None:
    """`keep_existing` is for objects and packs, which never change."""
    if any(fnmatch(source.name, pattern) for pattern in skipped):
        return
    # Files may be packed, replaced or removed at any time.
    with contextlib.suppress(FileNotFoundError):
        if source.is_dir():
            target.mkdir(exist_ok=True)
            for entry in _packs_last(source):
                _copy_entry(entry, target / entry.name, skipped, keep_existing=keep_existing)
        elif not (keep_existing and target.exists()):
            shutil.copyfile(source, target)


def _packs_last(directory: Path) -> list[Path]:
    """A pack before its index, which makes it visible."""
    return sorted(
        directory.iterdir(),
        key=lambda entry: (entry.name == "pack", entry.suffix != ".pack", entry.name),
    )

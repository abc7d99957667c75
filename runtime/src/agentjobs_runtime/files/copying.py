"""Copies trees that the service wrote, and changes their owner. Keeps symbolic links.

Handles small trees in this process, because starting a program would take longer.
"""
# Copies tens of files in a millisecond or two: Path objects would double the time.
# ruff: noqa: PTH101, PTH102, PTH104, PTH115, PTH116, PTH208, PTH211

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

IN_PROCESS_ENTRIES = 400


def copy_tree(source: Path, target: Path, *, entries: int) -> None:
    """Blocking. `entries` is the approximate number of files; keeps modification times."""
    if entries <= IN_PROCESS_ENTRIES:
        _copy_in_process(str(source), str(target))
    else:
        _run("cp", "-a", "-T", "--reflink=auto", "--", str(source), str(target))


def copy_entry(source: str, target: str) -> None:
    """Blocking: copy a file, link or directory tree; the target must not exist."""
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        _copy_link(source, target)
    elif stat.S_ISDIR(mode):
        _copy_in_process(source, target)
    else:
        _copy_file(source, target)


def move_entries(source: Path, target: Path) -> None:
    """Blocking: move what a directory contains into an empty one on the same file system."""
    os.chmod(target, os.stat(source).st_mode & 0o777)
    for name in os.listdir(source):
        os.rename(f"{source}/{name}", f"{target}/{name}")


def chown_tree(tree: Path, owner_uid: int, *, entries: int) -> None:
    """Blocking; for root, and for a tree that no other user has written to."""
    if entries > IN_PROCESS_ENTRIES:
        _run("chown", "-hR", f"{owner_uid}:{owner_uid}", "--", str(tree))
        return
    os.chown(tree, owner_uid, owner_uid)
    for directory, directories, files in os.walk(tree):
        for name in (*directories, *files):
            os.lchown(f"{directory}/{name}", owner_uid, owner_uid)


def measure_tree(tree: Path) -> tuple[int, int]:
    """Blocking: the number of entries and their bytes on disk; skips what vanishes meanwhile."""
    entries, blocks = 0, 0
    pending = [str(tree)]
    while pending:
        with (
            contextlib.suppress(FileNotFoundError),
            os.scandir(pending.pop()) as directory_entries,
        ):
            for entry in directory_entries:
                entries += 1
                blocks += entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return entries, blocks * 512


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise OSError(f"{command[0]}: {lines[-1]}")


def _copy_in_process(source: str, target: str) -> None:
    pending = [(source, target)]
    while pending:
        from_directory, to_directory = pending.pop()
        os.mkdir(to_directory, os.stat(from_directory).st_mode & 0o777)
        with os.scandir(from_directory) as directory_entries:
            for entry in directory_entries:
                to_path = f"{to_directory}/{entry.name}"
                if entry.is_symlink():
                    _copy_link(entry.path, to_path)
                elif entry.is_dir():
                    pending.append((entry.path, to_path))
                else:
                    _copy_file(entry.path, to_path)


def _copy_link(source: str, target: str) -> None:
    os.symlink(os.readlink(source), target)
    shutil.copystat(source, target, follow_symlinks=False)


def _copy_file(source: str, target: str) -> None:
    source_fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(source_fd)
        target_fd = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, status.st_mode & 0o777
        )
        try:
            sent = 0
            while sent < status.st_size:
                sent += os.sendfile(target_fd, source_fd, sent, status.st_size - sent)
            os.utime(target_fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(target_fd)
    finally:
        os.close(source_fd)

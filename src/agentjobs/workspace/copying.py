"""Copies a tree we wrote ourselves, and gives it to its new owner. Links stay links.

Small trees are handled in this process: starting a program would cost more than the work.
"""
# Tens of files in a millisecond or two: Path objects would double the time.
# ruff: noqa: PTH102, PTH115, PTH116, PTH211

import os
import shutil
import stat
import subprocess
from pathlib import Path

IN_PROCESS_ENTRIES = 400


def copy_tree(source: Path, target: Path, *, entries: int) -> None:
    """Blocking. `entries` is about how many files the tree has; modification times are kept."""
    if entries <= IN_PROCESS_ENTRIES:
        _copy_in_process(str(source), str(target))
    else:
        _run("cp", "-a", "-T", "--reflink=auto", "--", str(source), str(target))


def copy_entry(source: str, target: str) -> None:
    """Blocking: one file, link or directory with all it holds; nothing may be at the target."""
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        _copy_link(source, target)
    elif stat.S_ISDIR(mode):
        _copy_in_process(source, target)
    else:
        _copy_file(source, target)


def give_tree(tree: Path, owner_uid: int, *, entries: int) -> None:
    """Blocking; for root, and for a tree nobody else has written to yet."""
    if entries > IN_PROCESS_ENTRIES:
        _run("chown", "-hR", f"{owner_uid}:{owner_uid}", "--", str(tree))
        return
    os.chown(tree, owner_uid, owner_uid)
    for directory, directories, files in os.walk(tree):
        for name in (*directories, *files):
            os.lchown(f"{directory}/{name}", owner_uid, owner_uid)


def measure_tree(tree: Path) -> tuple[int, int]:
    """Blocking: how many entries there are, and how many bytes of disk they take."""
    entries, blocks = 0, 0
    pending = [str(tree)]
    while pending:
        with os.scandir(pending.pop()) as found:
            for entry in found:
                entries += 1
                blocks += entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return entries, blocks * 512


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise OSError(f"{command[0]}: {told[-1]}")


def _copy_in_process(source: str, target: str) -> None:
    pending = [(source, target)]
    while pending:
        from_directory, to_directory = pending.pop()
        os.mkdir(to_directory, os.stat(from_directory).st_mode & 0o777)
        with os.scandir(from_directory) as found:
            for entry in found:
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
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        described = os.fstat(reading)
        writing = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, described.st_mode & 0o777
        )
        try:
            sent = 0
            while sent < described.st_size:
                sent += os.sendfile(writing, reading, sent, described.st_size - sent)
            os.utime(writing, ns=(described.st_atime_ns, described.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)

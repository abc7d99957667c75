"""Reads and writes files of the working directory byte by byte, and copies projects' metadata.

Text keeps its line endings and bytes that are not UTF-8.
"""

import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from agentjobs_dependencies.fixes.model import CannotFix

MAX_BYTES = 64 * 1024 * 1024


def resolve_file(root: Path, name: str) -> Path:
    """The file with this name, which must be below the root and not link outside."""
    path = root / PurePosixPath(name)
    try:
        target = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # For example, links that lead to each other.
        raise CannotFix(f"{name} cannot be read: {error}") from None
    if ".." in PurePosixPath(name).parts or not target.is_relative_to(root.resolve()):
        raise CannotFix(f"{name} is outside the repository")
    if not path.is_file():
        raise CannotFix(f"{name} is not in this branch")
    if path.stat().st_size > MAX_BYTES:
        raise CannotFix(f"{name} is larger than {MAX_BYTES // 1024 // 1024} MiB")
    return path


def find_file(root: Path, path: Path) -> Path | None:
    """The file, or the one that it links to; None if the repository does not have it."""
    try:
        return resolve_file(root, path.resolve().relative_to(root.resolve()).as_posix())
    except (CannotFix, OSError, RuntimeError, ValueError):
        return None


def open_file(root: Path, name: str) -> tuple[Path, str]:
    """The file with this name, and its text."""
    path = resolve_file(root, name)
    return path, read(path)


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def read_toml(text: str, name: str) -> dict[str, Any]:
    """Raises CannotFix with the file's name if it is not valid."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CannotFix(f"{name} cannot be read: {error}") from None


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def match_line_endings(model: str, text: str) -> str:
    return text.replace("\n", "\r\n") if "\r\n" in model else text


def copy_files(root: Path, files: Iterable[Path], copy: Path) -> None:
    """Copy existing files to the same paths. Code is not copied, so none can run."""
    for path in files:
        if path.is_file() and path.resolve().is_relative_to(root.resolve()):
            target = copy / path.resolve().relative_to(root.resolve())
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

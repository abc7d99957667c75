"""Finds the Python versions that a project supports, from what its files say. Runs nothing."""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from cve_fixer import tree
from cve_fixer.python.versions import allows

_MAX_BYTES = 1024 * 1024
_MAX_WORKFLOWS = 50
_MINORS = ("2.7", *(f"3.{minor}" for minor in range(4, 30)))
_VERSION = re.compile(r"\b([23]\.\d+)")
_COMPILED_WITH = re.compile(r"^#.*(?:with Python |--python-version[ =])(\d+\.\d+)", re.MULTILINE)
_PYTHON_REQUIRES = re.compile(r"^\s*python_requires\s*=\s*([^\n]+)", re.MULTILINE)
_FROM_PYTHON = re.compile(r"^\s*FROM\s+(?:\S*/)?python:(\d\.\d+)", re.MULTILINE | re.IGNORECASE)
_MATRIX = re.compile(r"python-version:\s*(\[[^\]]*\]|['\"]?[23]\.\d+)")


def supported_pythons(root: Path, manifest: str) -> tuple[str, ...]:
    """Versions such as `3.8`: the lowest of a range, or all that are named; empty if unknown."""
    compiled = _COMPILED_WITH.search(_read(root / manifest))
    if compiled:
        return (compiled[1],)
    for find in (_from_ranges, _from_version_files, _from_dockerfiles):
        directory = (root / manifest).parent
        while directory.is_relative_to(root):
            if found := find(directory):
                return found
            directory = directory.parent
    return _from_workflows(root)


def _from_ranges(directory: Path) -> tuple[str, ...]:
    specifiers = [
        _specifier_of_pyproject(_read(directory / "pyproject.toml")),
        *_PYTHON_REQUIRES.findall(_read(directory / "setup.cfg")),
    ]
    for specifier in filter(None, specifiers):
        lowest = next((each for each in _MINORS if allows(specifier, f"{each}.99")), None)
        if lowest is not None:
            return (lowest,)
    return ()


def _specifier_of_pyproject(text: str) -> str:
    try:
        document = tomllib.loads(text)
        specifier = document.get("project", {}).get("requires-python") or (
            document.get("tool", {}).get("poetry", {}).get("dependencies", {}).get("python")
        )
    except (ValueError, RecursionError, AttributeError):
        return ""
    return specifier if isinstance(specifier, str) else ""


def _from_version_files(directory: Path) -> tuple[str, ...]:
    for name in (".python-version", "runtime.txt"):
        if found := _VERSION.search(_read(directory / name)):
            return (found[1],)
    try:
        requires = tomllib.loads(_read(directory / "Pipfile")).get("requires", {})
        version = requires.get("python_version") or requires.get("python_full_version")
    except (ValueError, RecursionError, AttributeError):
        return ()
    found = _VERSION.match(version) if isinstance(version, str) else None
    return (found[1],) if found else ()


def _from_dockerfiles(directory: Path) -> tuple[str, ...]:
    files = [path for path in _entries(directory) if path.name.startswith("Dockerfile")]
    return _distinct(_FROM_PYTHON.findall, files)


def _from_workflows(root: Path) -> tuple[str, ...]:
    directory = root / ".github" / "workflows"
    files = [path for path in _entries(directory) if path.suffix in {".yml", ".yaml"}]

    def find(text: str) -> Iterator[str]:
        for match in _MATRIX.finditer(text):
            yield from _VERSION.findall(match[1])

    return _distinct(find, files)


def _distinct(
    find: Callable[[str], "list[str] | Iterator[str]"], files: list[Path]
) -> tuple[str, ...]:
    found = {version for path in files[:_MAX_WORKFLOWS] for version in find(_read(path))}
    return tuple(sorted(found, key=lambda version: [int(part) for part in version.split(".")]))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    """Empty if there is no such file."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return tree.read(path)
    except OSError:
        return ""

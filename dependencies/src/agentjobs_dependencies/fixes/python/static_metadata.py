"""Gives uv metadata that it could only get from a build: the version of a project that its code
computes, and the requirements of packages without a wheel. Edits the copy that uv works on.

Removes it from the lock file that uv writes.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentjobs_dependencies.fixes import lock_blocks, tree
from agentjobs_dependencies.fixes.lock_blocks import Table
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.python import pyproject

_DYNAMIC = re.compile(r"^[ \t]*dynamic[ \t]*=[ \t]*\[[^\]]*\]", re.MULTILINE)
_KNOWN = re.compile(r"\n*^\[\[manifest\.dependency-metadata\]\]\n(?:[^\n]+\n?)*", re.MULTILINE)
_NAME = re.compile(r"^name = .*$", re.MULTILINE)
_VERSION = 'version = "0"'


def make_static(path: Path) -> None:
    """Set a version in a pyproject.toml whose version is dynamic."""
    text = tree.read(path)
    project = pyproject.read_pyproject(text).get("project", {})
    dynamic = project.get("dynamic", []) if isinstance(project, dict) else []
    if "dependencies" in dynamic or "optional-dependencies" in dynamic:
        raise CannotFix("the project's dependencies are dynamic, so only its code knows them")
    if dynamic:
        version = _VERSION if "version" in dynamic else ""
        tree.write(path, _DYNAMIC.sub(version, text, count=1))


def add_static_versions(lock: str, known_metadata: str) -> str:
    """The lock file that uv accepts after `make_static` and `add_known_metadata`."""
    parts = lock_blocks.split(lock)
    blocks = [
        block if "\nversion = " in block else _NAME.sub(rf"\g<0>\n{_VERSION}", block, count=1)
        for block in parts.blocks
    ]
    head = "\n\n".join(part for part in (parts.head, known_metadata) if part)
    return lock_blocks.join_blocks(head, blocks, parts.tail)


def add_known_metadata(path: Path, lock: str) -> bool:
    """Add what the lock file knows of each package without a wheel.

    False if there is none, or if the project provides such metadata itself.
    """
    text = tree.read(path)
    uv_settings = pyproject.read_pyproject(text).get("tool", {}).get("uv", {})
    known = [
        entry
        for entry in lock_blocks.read_lock(lock).get("package", [])
        if "registry" in entry.get("source", {}) and not entry.get("wheels")
    ]
    if not known or "dependency-metadata" in uv_settings:
        return False
    tables = "".join(
        "\n[[tool.uv.dependency-metadata]]\n"
        + _metadata(entry["name"], entry["version"], _requirements(entry))
        + f"provides-extra = {json.dumps(list(entry.get('optional-dependencies', {})))}\n"
        for entry in known
    )
    tree.write(path, text + "\n" + tables)
    return True


def dependency_metadata(known: Mapping[tuple[str, str], Iterable[str]]) -> str:
    """A uv.toml with the requirements of packages, by name and version."""
    return "".join(
        f"[[dependency-metadata]]\n{_metadata(name, version, requirements)}"
        for (name, version), requirements in known.items()
    )


def _metadata(name: str, version: str, requirements: Iterable[str]) -> str:
    """JSON strings and lists are valid TOML."""
    return (
        f"name = {json.dumps(name)}\n"
        f"version = {json.dumps(version)}\n"
        f"requires-dist = {json.dumps(list(requirements))}\n"
    )


def remove_known_metadata(lock: str) -> tuple[str, str]:
    """The lock file, and the part of its head that `add_known_metadata` caused."""
    parts = lock_blocks.split(lock)
    known = "".join(_KNOWN.findall(parts.head + "\n")).strip("\n")
    head = _KNOWN.sub("", parts.head + "\n").rstrip("\n")
    return lock_blocks.join_blocks(head, list(parts.blocks), parts.tail), known


def _requirements(entry: Table) -> Iterator[str]:
    yield from (_requirement(dependency, "") for dependency in entry.get("dependencies", []))
    for extra, dependencies in entry.get("optional-dependencies", {}).items():
        yield from (_requirement(dependency, f"extra == {extra!r}") for dependency in dependencies)


def _requirement(dependency: Table, condition: str) -> str:
    extras = f"[{','.join(dependency['extra'])}]" if dependency.get("extra") else ""
    markers = " and ".join(f"({part})" for part in (dependency.get("marker"), condition) if part)
    return f"{dependency['name']}{extras}{f' ; {markers}' if markers else ''}"

"""What uv would have to build something to find out, told to it beforehand in the copy it works
on: the version of a project that only its code knows, what packages without a wheel ask for.

Takes it back out of the lock file that uv writes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from cve_fixer import lock_blocks, tree
from cve_fixer.lock_blocks import Table
from cve_fixer.model import CannotFix
from cve_fixer.python import pyproject

_DYNAMIC = re.compile(r"^[ \t]*dynamic[ \t]*=[ \t]*\[[^\]]*\]", re.MULTILINE)
_KNOWN = re.compile(r"\n*^\[\[manifest\.dependency-metadata\]\]\n(?:[^\n]+\n?)*", re.MULTILINE)
_NAME = re.compile(r"^name = .*$", re.MULTILINE)
_VERSION = 'version = "0"'


def make_static(path: Path) -> None:
    """A pyproject.toml whose version its own code would compute gets one."""
    text = tree.read(path)
    project = pyproject.read_pyproject(text).get("project", {})
    dynamic = project.get("dynamic", []) if isinstance(project, dict) else []
    if "dependencies" in dynamic or "optional-dependencies" in dynamic:
        raise CannotFix("the project's dependencies are dynamic: only its own code knows them")
    if dynamic:
        version = _VERSION if "version" in dynamic else ""
        tree.write(path, _DYNAMIC.sub(version, text, count=1))


def with_static_versions(lock: str, known_metadata: str) -> str:
    """As uv finds the lock file in order after `make_static` and `add_known_metadata`."""
    parts = lock_blocks.split(lock)
    blocks = [
        block if "\nversion = " in block else _NAME.sub(rf"\g<0>\n{_VERSION}", block, count=1)
        for block in parts.blocks
    ]
    head = "\n\n".join(part for part in (parts.head, known_metadata) if part)
    return lock_blocks.joined(head, blocks, parts.tail)


def add_known_metadata(path: Path, lock: str) -> bool:
    """For each package without a wheel, what the lock file knows of it.

    False where there is none, or the project tells such things itself.
    """
    text = tree.read(path)
    own = pyproject.read_pyproject(text).get("tool", {}).get("uv", {})
    known = [
        entry
        for entry in lock_blocks.read_lock(lock).get("package", [])
        if "registry" in entry.get("source", {}) and not entry.get("wheels")
    ]
    # JSON's strings and lists are TOML's too.
    tables = (
        "\n[[tool.uv.dependency-metadata]]\n"
        f"name = {json.dumps(entry['name'])}\n"
        f"version = {json.dumps(entry['version'])}\n"
        f"requires-dist = {json.dumps(list(_requirements(entry)))}\n"
        f"provides-extra = {json.dumps(list(entry.get('optional-dependencies', {})))}\n"
        for entry in known
    )
    if not known or "dependency-metadata" in own:
        return False
    tree.write(path, text + "\n" + "".join(tables))
    return True


def without_known_metadata(lock: str) -> tuple[str, str]:
    """The lock file, and what of its head was only there for `add_known_metadata`."""
    parts = lock_blocks.split(lock)
    known = "".join(_KNOWN.findall(parts.head + "\n")).strip("\n")
    head = _KNOWN.sub("", parts.head + "\n").rstrip("\n")
    return lock_blocks.joined(head, list(parts.blocks), parts.tail), known


def _requirements(entry: Table) -> Iterator[str]:
    yield from (_requirement(needed, "") for needed in entry.get("dependencies", []))
    for extra, needs in entry.get("optional-dependencies", {}).items():
        yield from (_requirement(needed, f"extra == {extra!r}") for needed in needs)


def _requirement(needed: Table, condition: str) -> str:
    extras = f"[{','.join(needed['extra'])}]" if needed.get("extra") else ""
    markers = " and ".join(f"({part})" for part in (needed.get("marker"), condition) if part)
    return f"{needed['name']}{extras}{f' ; {markers}' if markers else ''}"

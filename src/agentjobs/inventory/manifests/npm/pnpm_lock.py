"""Reads pnpm-lock.yaml of the versions 5 to 9, which differ in how they call a package:
`/name/1.0.0_peer@2.0.0`, `/name@1.0.0(peer@2.0.0)`, `name@1.0.0(peer@2.0.0)`."""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.npm.ranges import (
    ECOSYSTEM,
    is_local,
    is_version,
    requirement,
    split_descriptor,
)
from agentjobs.inventory.manifests.npm.yaml_lines import read_block
from agentjobs.inventory.manifests.text import Unreadable, Warnings, decode
from agentjobs.inventory.manifests.text_yaml import parse_yaml
from agentjobs.inventory.model import ParsedManifest, Requirement, Root, Scope

# Attributes of a package (never names: those stand deeper) that take much room.
_BULK = re.compile(
    r"^    (?:(?:resolution|engines|cpu|os|libc): [{\[][^\n]*|(?:hasBin|requiresBuild): true)\n",
    re.MULTILINE,
)
_SECTIONS: tuple[tuple[str, Scope], ...] = (
    ("dependencies", "runtime"),
    ("devDependencies", "dev"),
    ("optionalDependencies", "optional"),
)


def read_pnpm_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    document = read_block(_BULK.sub("", text))
    if document is None:
        document = parse_yaml(content)
    if not isinstance(document, dict):
        raise Unreadable("not a mapping, as a lock file of pnpm is")
    lock = Lock(Warnings(reasons))
    packages, snapshots = _table(document, "packages"), _table(document, "snapshots")
    entries = snapshots or packages
    is_old = str(document.get("lockfileVersion", "")).startswith("5")
    for key, entry in entries.items():
        about = packages.get(key.partition("(")[0]) if snapshots else entry
        _add(lock, key, entry, about if isinstance(about, dict) else {}, is_old)
    for key, entry in entries.items():
        lock.require(key, _required(lock, entry))
    projects = _table(document, "importers") or {".": document}
    return ParsedManifest(
        ECOSYSTEM,
        requirements=within_bounds(
            (r for project in projects.values() for r in _asked(project)), lock.warnings
        ),
        packages=lock.packages(),
        roots=tuple(
            Root("" if at == "." else at, tuple(dict.fromkeys(_required(lock, project, "dev"))))
            for at, project in projects.items()
        ),
        warnings=lock.warnings.all(),
    )


def _add(lock: Lock, key: str, entry: Any, about: dict[str, Any], is_old: bool) -> None:
    name, version = _identity(key, is_old)
    if is_local(version) or is_local(key.removeprefix("/")):
        return
    # What comes from an address has its name and version beside it.
    name, version = str(about.get("name") or name), str(about.get("version") or version)
    if not is_version(version):
        lock.warnings.add(f"{name[:100]} is locked at {version[:100]!r}, which is no version")
    scope: Scope = "runtime"
    if isinstance(entry, dict) and entry.get("dev") == "true":
        scope = "dev"
    elif isinstance(entry, dict) and entry.get("optional") == "true":
        scope = "optional"
    lock.add(key, name, version, scope)


def _identity(key: str, is_old: bool) -> tuple[str, str]:
    key = key.removeprefix("/")
    if is_old:
        name, _, version = key.rpartition("/")
        return name, version.partition("_")[0]
    return split_descriptor(key.partition("(")[0])


def _required(lock: Lock, entry: Any, *more: str) -> Iterator[int]:
    """Positions of what an entry names; `dev` stands for what only a project has."""
    for section, scope in _SECTIONS:
        if scope == "dev" and not more:
            continue
        for name, value in _table(entry, section).items():
            wanted = _version(value)
            position = None if wanted is None else _find(lock, name, wanted)
            if position is not None:
                yield position


def _find(lock: Lock, name: str, wanted: str) -> int | None:
    """An alias is named by the whole key of what it stands for."""
    for key in (f"{name}@{wanted}", f"/{name}@{wanted}", f"/{name}/{wanted}", wanted):
        position = lock.position(key)
        if position is not None:
            return position
    return None


def _version(value: Any) -> str | None:
    """From version 6 on a project's own entries have the range beside the version."""
    found = value.get("version") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def _asked(project: Any) -> Iterator[Requirement]:
    specifiers = _table(project, "specifiers")
    for section, scope in _SECTIONS:
        for name, value in _table(project, section).items():
            specifier = value.get("specifier") if isinstance(value, dict) else specifiers.get(name)
            if isinstance(specifier, str) and not is_local(specifier):
                yield requirement(name, specifier, scope)


def _table(entry: Any, key: str) -> dict[str, Any]:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}

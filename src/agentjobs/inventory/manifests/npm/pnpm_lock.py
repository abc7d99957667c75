"""Reads pnpm-lock.yaml of versions 5 to 9, which differ in the keys of packages:
`/name/1.0.0_peer@2.0.0`, `/name@1.0.0(peer@2.0.0)`, `name@1.0.0(peer@2.0.0)`."""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs.inventory.manifests.bounds import limit_requirements
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.npm.ranges import (
    ECOSYSTEM,
    is_local,
    is_version,
    requirement,
    split_descriptor,
)
from agentjobs.inventory.manifests.text import UnreadableManifest, Warnings, decode
from agentjobs.inventory.manifests.text_yaml import parse_yaml
from agentjobs.inventory.model import ParsedManifest, Requirement, Root, Scope

# Large attributes of a package that are not needed; names of packages are indented deeper.
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
    document = parse_yaml(_BULK.sub("", text))
    if not isinstance(document, dict):
        raise UnreadableManifest("not a mapping")
    lock = Lock(Warnings(reasons))
    packages, snapshots = _table(document, "packages"), _table(document, "snapshots")
    entries = snapshots or packages
    is_old = str(document.get("lockfileVersion", "")).startswith("5")
    for key, entry in entries.items():
        metadata = packages.get(key.partition("(")[0]) if snapshots else entry
        _add(lock, key, entry, metadata if isinstance(metadata, dict) else {}, is_old)
    for key, entry in entries.items():
        lock.require(key, _required(lock, entry))
    projects = _table(document, "importers") or {".": document}
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(
            (r for project in projects.values() for r in _project_requirements(project)),
            lock.warnings,
        ),
        packages=lock.packages(),
        roots=tuple(
            Root("" if at == "." else at, tuple(dict.fromkeys(_required(lock, project, "dev"))))
            for at, project in projects.items()
        ),
        warnings=lock.warnings.all(),
    )


def _add(lock: Lock, key: str, entry: Any, metadata: dict[str, Any], is_old: bool) -> None:
    name, version = _identity(key, is_old)
    if is_local(version) or is_local(key.removeprefix("/")):
        return
    # A package from a URL has separate name and version fields.
    name, version = str(metadata.get("name") or name), str(metadata.get("version") or version)
    if not is_version(version):
        lock.warnings.add(f"{name[:100]} has the invalid version {version[:100]!r}")
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
    """The positions of an entry's requirements; pass `dev` to include development ones."""
    for section, scope in _SECTIONS:
        if scope == "dev" and not more:
            continue
        for name, value in _table(entry, section).items():
            version = _version(value)
            position = None if version is None else _find(lock, name, version)
            if position is not None:
                yield position


def _find(lock: Lock, name: str, version: str) -> int | None:
    """For an alias, the version is the full key of the package."""
    for key in (f"{name}@{version}", f"/{name}@{version}", f"/{name}/{version}", version):
        position = lock.position(key)
        if position is not None:
            return position
    return None


def _version(value: Any) -> str | None:
    """Since version 6, entries of a project have both a range and a version."""
    version = value.get("version") if isinstance(value, dict) else value
    return version if isinstance(version, str) else None


def _project_requirements(project: Any) -> Iterator[Requirement]:
    specifiers = _table(project, "specifiers")
    for section, scope in _SECTIONS:
        for name, value in _table(project, section).items():
            specifier = value.get("specifier") if isinstance(value, dict) else specifiers.get(name)
            if isinstance(specifier, str) and not is_local(specifier):
                yield requirement(name, specifier, scope)


def _table(entry: Any, key: str) -> dict[str, Any]:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}

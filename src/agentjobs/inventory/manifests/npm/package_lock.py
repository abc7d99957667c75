"""Reads package-lock.json of versions 1 to 3 and npm-shrinkwrap.json.

Version 1 is a tree, versions 2 and 3 list locations in node_modules; the tree is converted to
locations. Requirements are resolved as in Node: in the own node_modules, then in parent ones.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from agentjobs.inventory.manifests.bounds import limit_requirements
from agentjobs.inventory.manifests.locks import MAX_PACKAGES, Lock
from agentjobs.inventory.manifests.npm.ranges import (
    ECOSYSTEM,
    Sections,
    is_version,
    requirements,
    split_descriptor,
    strings,
)
from agentjobs.inventory.manifests.text import MAX_DEPTH, Warnings, parse_json
from agentjobs.inventory.model import ParsedManifest, Requirement, Root, Scope

_NODE_MODULES = "node_modules/"
_MAX_KEY = 2048
# Each required name is looked up in as many directories as its package is deep.
_MAX_LEVELS = 128
_MAX_REQUIRED_NAMES = 500_000


class _Entry(Sections):
    """In version 1, `requires` has the requirements, and `dependencies` the nested entries."""

    name: str | None = None
    version: str | None = None
    resolved: str | bool | None = None
    link: bool = False
    dev: bool = False
    optional: bool = False
    dev_optional: bool = False
    requires: msgspec.Raw = msgspec.Raw(b"{}")


class _Document(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b'""')
    packages: dict[str, msgspec.Raw] | None = None
    dependencies: dict[str, msgspec.Raw] = {}


class _Location(msgspec.Struct):
    """The location of a package or, if `directory` is set, of a project of the repository."""

    entry: _Entry
    requires: list[str]
    directory: str | None = None


_DOCUMENT = msgspec.json.Decoder(_Document)
_ENTRY = msgspec.json.Decoder(_Entry)
_NESTED = msgspec.json.Decoder(dict[str, msgspec.Raw])

_Locations = dict[str, _Location]


def read_package_lock(content: bytes) -> ParsedManifest:
    document = parse_json(content, _DOCUMENT)
    warnings = Warnings()
    is_flat = document.packages is not None
    if document.packages is not None:
        locations = _from_packages(document.packages, warnings)
    else:
        locations = _from_tree(document.dependencies, warnings)
    if len(locations) >= MAX_PACKAGES:
        warnings.add(f"more than {MAX_PACKAGES} entries; the rest is left out")
    _limit_requirements(locations, warnings)
    lock = Lock(warnings)
    for key, location in locations.items():
        if location.directory is None:
            _add(lock, key, location.entry)
    roots = []
    for key, location in locations.items():
        required = _required(lock, locations, key)
        if location.directory is None:
            lock.require(key, required)
        else:
            roots.append(Root(location.directory, tuple(dict.fromkeys(required))))
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(_project_requirements(locations, warnings), warnings)
        if is_flat
        else (),
        packages=lock.packages(),
        roots=tuple(roots),
        notes=_top_level(lock, locations),
        warnings=warnings.all(),
    )


def _from_packages(packages: dict[str, msgspec.Raw], warnings: Warnings) -> _Locations:
    locations = {}
    for key, raw in islice(packages.items(), MAX_PACKAGES):
        entry = _decode(key, raw, warnings)
        if entry is None or entry.link:
            continue
        if len(key) > _MAX_KEY or key.count("/") > _MAX_LEVELS:
            warnings.add(f"an entry with a path of {len(key)} characters is left out")
            continue
        sections = [entry.dependencies, entry.optional_dependencies, entry.peer_dependencies]
        is_project = f"/{_NODE_MODULES}" not in f"/{key}"
        if is_project:
            sections.append(entry.dev_dependencies)
        requires = [name for raw in sections for name in strings(raw, f"packages.{key}", warnings)]
        locations[key] = _Location(entry, requires, key if is_project else None)
    return locations


def _from_tree(tree: dict[str, msgspec.Raw], warnings: Warnings) -> _Locations:
    locations: _Locations = {}
    waiting = [("", tree)]
    while waiting and len(locations) < MAX_PACKAGES:
        prefix, nodes = waiting.pop()
        for name, raw in islice(nodes.items(), MAX_PACKAGES):
            key = f"{prefix}{_NODE_MODULES}{name}"
            entry = _decode(key, raw, warnings)
            if entry is None:
                continue
            requires = _tree_requirements(entry, key, warnings)
            version = entry.version or ""
            directory = version[5:] if version.startswith("file:") else None
            if directory is None or not directory.endswith((".tgz", ".tar.gz")):
                locations[key] = _Location(entry, requires, directory)
            nested = _nested(entry.dependencies)
            if nested and key.count(_NODE_MODULES) < MAX_DEPTH:
                waiting.append((f"{key}/", nested))
    return locations


def _limit_requirements(locations: _Locations, warnings: Warnings) -> None:
    remaining = _MAX_REQUIRED_NAMES
    for location in locations.values():
        del location.requires[remaining:]
        remaining -= len(location.requires)
    if not remaining:
        warnings.add(f"more than {_MAX_REQUIRED_NAMES} required names; the rest is left out")


def _tree_requirements(entry: _Entry, key: str, warnings: Warnings) -> list[str]:
    if bytes(entry.requires) == b"true":
        return []
    return list(strings(entry.requires, f"requires of {key[:100]}", warnings))


def _nested(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _NESTED.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _decode(key: str, raw: msgspec.Raw, warnings: Warnings) -> _Entry | None:
    try:
        return _ENTRY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        warnings.add(f"the entry {key[:100]!r} is left out: {str(error)[:100]}")
        return None


def _add(lock: Lock, key: str, entry: _Entry) -> None:
    name, version = entry.name or key.rpartition(_NODE_MODULES)[2], entry.version or ""
    if version.startswith("npm:"):
        name, version = split_descriptor(version[4:])
    if not version:
        return  # Bundled with another package, or optional on another platform.
    if "/" in version:
        return  # Version 1 has only the URL of packages outside of the registry.
    if not is_version(version):
        lock.warnings.add(f"{name[:100]} has the invalid version {version[:100]!r}")
    lock.add(key, name, version, _scope(entry))


def _scope(entry: _Entry) -> Scope:
    if entry.dev:
        return "dev"
    return "optional" if entry.optional or entry.dev_optional else "runtime"


def _required(lock: Lock, locations: _Locations, key: str) -> Iterator[int]:
    for name in locations[key].requires:
        location = _find(locations, key, name)
        position = lock.position(location) if location is not None else None
        if position is not None:
            yield position


def _find(locations: _Locations, key: str, name: str) -> str | None:
    base = f"{key}/" if key else ""
    while True:
        candidate = f"{base}{_NODE_MODULES}{name}"
        if candidate in locations:
            return candidate
        if not base:
            return None
        parent, separator, _ = base.rpartition(_NODE_MODULES)
        # Outside of node_modules, one directory at a time.
        base = parent if separator else base[:-1].rpartition("/")[0]
        base = f"{base.removesuffix('/')}/" if base else ""


def _project_requirements(locations: _Locations, warnings: Warnings) -> Iterator[Requirement]:
    for location in locations.values():
        if location.directory is not None:
            yield from requirements(location.entry, warnings)


def _top_level(lock: Lock, locations: _Locations) -> dict[str, str]:
    """The positions of top-level packages with several versions, for projects without a root."""
    if "" in locations:
        return {}
    notes = {}
    for key in locations:
        name = key.removeprefix(_NODE_MODULES)
        position = lock.position(key)
        if position is not None and _NODE_MODULES not in name and len(lock.named(name)) > 1:
            notes[name] = str(position)
    return notes

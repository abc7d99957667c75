"""Reads package-lock.json of versions 1 to 3 and npm-shrinkwrap.json.

Version 1 is a tree, versions 2 and 3 list locations in node_modules; the tree is converted to
locations. Requirements are resolved as in Node: in the own node_modules, then in parent ones.
"""

from collections.abc import Container, Iterator
from itertools import islice
from typing import Any, NamedTuple

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import MAX_PACKAGES, Lock
from agentjobs_dependencies.formats.npm.ranges import (
    ECOSYSTEM,
    is_version,
    requirements,
    split_descriptor,
    strings,
)
from agentjobs_dependencies.formats.text import (
    MAX_DEPTH,
    UnreadableManifest,
    Warnings,
    parse_json,
    table_at,
)
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root, Scope

_NODE_MODULES = "node_modules/"
_SECTIONS = ("dependencies", "optionalDependencies", "peerDependencies")
_MAX_KEY = 2048
# Each required name is looked up in as many directories as its package is deep.
_MAX_LEVELS = 128
_MAX_REQUIRED_NAMES = 500_000


_Entry = dict[str, Any]


class _Location(NamedTuple):
    """The location of a package or, if `directory` is set, of a project of the repository."""

    entry: _Entry
    requires: list[str]
    directory: str | None = None


_Locations = dict[str, _Location]


def read_package_lock(content: bytes) -> ParsedManifest:
    document, warnings = parse_json(content)
    is_flat = "packages" in document
    entries = document.get("packages" if is_flat else "dependencies", {})
    if not isinstance(entries, dict):
        raise UnreadableManifest("unexpected structure: the packages are not an object")
    # In version 1, `requires` has the requirements, and `dependencies` the nested entries.
    locations = (_from_packages if is_flat else _from_tree)(entries, warnings)
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


def _from_packages(packages: dict[str, Any], warnings: Warnings) -> _Locations:
    locations = {}
    for key, value in islice(packages.items(), MAX_PACKAGES):
        entry = _check(key, value, warnings)
        if entry is None or entry.get("link"):
            continue
        if len(key) > _MAX_KEY or key.count("/") > _MAX_LEVELS:
            warnings.add(f"an entry with a path of {len(key)} characters is left out")
            continue
        is_project = f"/{_NODE_MODULES}" not in f"/{key}"
        sections = (*_SECTIONS, "devDependencies") if is_project else _SECTIONS
        requires = [
            name
            for section in sections
            if section in entry
            for name in strings(entry, section, warnings)
        ]
        locations[key] = _Location(entry, requires, key if is_project else None)
    return locations


def _from_tree(tree: dict[str, Any], warnings: Warnings) -> _Locations:
    locations: _Locations = {}
    waiting = [("", tree)]
    while waiting and len(locations) < MAX_PACKAGES:
        prefix, nodes = waiting.pop()
        for name, value in islice(nodes.items(), MAX_PACKAGES):
            key = f"{prefix}{_NODE_MODULES}{name}"
            entry = _check(key, value, warnings)
            if entry is None:
                continue
            # Very old files say `true`.
            requires = [] if entry.get("requires") is True else strings(entry, "requires", warnings)
            version = entry.get("version") or ""
            directory = version[5:] if version.startswith("file:") else None
            if directory is None or not directory.endswith((".tgz", ".tar.gz")):
                locations[key] = _Location(entry, list(requires), directory)
            nested = table_at(entry, "dependencies")
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


def _check(key: str, value: Any, warnings: Warnings) -> _Entry | None:
    """None for an invalid entry."""
    if isinstance(value, dict):
        name, version = value.get("name"), value.get("version")
        if (name is None or isinstance(name, str)) and (
            version is None or isinstance(version, str)
        ):
            return value
    warnings.add(f"the entry {key[:100]!r} is left out: its name or version is not a string")
    return None


def _add(lock: Lock, key: str, entry: _Entry) -> None:
    name = entry.get("name") or key.rpartition(_NODE_MODULES)[2]
    version = entry.get("version") or ""
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
    if entry.get("dev"):
        return "dev"
    return "optional" if entry.get("optional") or entry.get("devOptional") else "runtime"


def _required(lock: Lock, locations: _Locations, key: str) -> Iterator[int]:
    for name in locations[key].requires:
        location = find_location(locations, key, name)
        position = lock.position(location) if location is not None else None
        if position is not None:
            yield position


def find_location(locations: Container[str], key: str, name: str) -> str | None:
    """The key of the package that `name` is at this location, as Node.js resolves it."""
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

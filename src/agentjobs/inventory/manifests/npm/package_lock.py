"""Reads package-lock.json of versions 1 to 3 and npm-shrinkwrap.json.

Version 1 is a tree, 2 and 3 are the places in node_modules; the tree is read as such places too.
Who gets what is found as Node does: in one's own node_modules, then in those above.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
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
# Each name that is wanted is looked for in as many directories as its package lies deep.
_MAX_LEVELS = 128
_MAX_WANTS = 500_000


class _Entry(Sections):
    """Of version 1, `requires` says what others call `dependencies`, which there are the nested
    entries."""

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


class _Place(msgspec.Struct):
    """One place that a package or, if `directory` is set, a project of the repository lies at."""

    entry: _Entry
    wants: list[str]
    directory: str | None = None


_DOCUMENT = msgspec.json.Decoder(_Document)
_ENTRY = msgspec.json.Decoder(_Entry)
_NESTED = msgspec.json.Decoder(dict[str, msgspec.Raw])

_Places = dict[str, _Place]


def read_package_lock(content: bytes) -> ParsedManifest:
    document = parse_json(content, _DOCUMENT)
    warnings = Warnings()
    is_flat = document.packages is not None
    if document.packages is not None:
        places = _from_packages(document.packages, warnings)
    else:
        places = _from_tree(document.dependencies, warnings)
    if len(places) >= MAX_PACKAGES:
        warnings.add(f"more than {MAX_PACKAGES} entries; the rest was left out")
    _bound_wants(places, warnings)
    lock = Lock(warnings)
    for key, place in places.items():
        if place.directory is None:
            _add(lock, key, place.entry)
    roots = []
    for key, place in places.items():
        required = _required(lock, places, key)
        if place.directory is None:
            lock.require(key, required)
        else:
            roots.append(Root(place.directory, tuple(dict.fromkeys(required))))
    return ParsedManifest(
        ECOSYSTEM,
        requirements=within_bounds(_asked(places, warnings), warnings) if is_flat else (),
        packages=lock.packages(),
        roots=tuple(roots),
        notes=_top_level(lock, places),
        warnings=warnings.all(),
    )


def _from_packages(packages: dict[str, msgspec.Raw], warnings: Warnings) -> _Places:
    places = {}
    for key, raw in islice(packages.items(), MAX_PACKAGES):
        entry = _decode(key, raw, warnings)
        if entry is None or entry.link:
            continue
        if len(key) > _MAX_KEY or key.count("/") > _MAX_LEVELS:
            warnings.add(f"an entry at a path of {len(key)} characters was left out")
            continue
        sections = [entry.dependencies, entry.optional_dependencies, entry.peer_dependencies]
        is_project = f"/{_NODE_MODULES}" not in f"/{key}"
        if is_project:
            sections.append(entry.dev_dependencies)
        wants = [name for raw in sections for name in strings(raw, f"packages.{key}", warnings)]
        places[key] = _Place(entry, wants, key if is_project else None)
    return places


def _from_tree(tree: dict[str, msgspec.Raw], warnings: Warnings) -> _Places:
    places: _Places = {}
    waiting = [("", tree)]
    while waiting and len(places) < MAX_PACKAGES:
        prefix, nodes = waiting.pop()
        for name, raw in islice(nodes.items(), MAX_PACKAGES):
            key = f"{prefix}{_NODE_MODULES}{name}"
            entry = _decode(key, raw, warnings)
            if entry is None:
                continue
            wants = _wants_of_tree(entry, key, warnings)
            version = entry.version or ""
            directory = version[5:] if version.startswith("file:") else None
            if directory is None or not directory.endswith((".tgz", ".tar.gz")):
                places[key] = _Place(entry, wants, directory)
            nested = _nested(entry.dependencies)
            if nested and key.count(_NODE_MODULES) < MAX_DEPTH:
                waiting.append((f"{key}/", nested))
    return places


def _bound_wants(places: _Places, warnings: Warnings) -> None:
    left = _MAX_WANTS
    for place in places.values():
        del place.wants[left:]
        left -= len(place.wants)
    if not left:
        warnings.add(f"more than {_MAX_WANTS} names are required; who else is, was left out")


def _wants_of_tree(entry: _Entry, key: str, warnings: Warnings) -> list[str]:
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
        warnings.add(f"the entry {key[:100]!r} was left out: {str(error)[:100]}")
        return None


def _add(lock: Lock, key: str, entry: _Entry) -> None:
    name, version = entry.name or key.rpartition(_NODE_MODULES)[2], entry.version or ""
    if version.startswith("npm:"):
        name, version = split_descriptor(version[4:])
    if not version:
        return  # Brought along by another package, or an optional one that is not for here.
    if "/" in version:
        return  # Version 1 names only the address of what comes from elsewhere.
    if not is_version(version):
        lock.warnings.add(f"{name[:100]} is locked at {version[:100]!r}, which is no version")
    lock.add(key, name, version, _scope(entry))


def _scope(entry: _Entry) -> Scope:
    if entry.dev:
        return "dev"
    return "optional" if entry.optional or entry.dev_optional else "runtime"


def _required(lock: Lock, places: _Places, key: str) -> Iterator[int]:
    for name in places[key].wants:
        found = _find(places, key, name)
        position = lock.position(found) if found is not None else None
        if position is not None:
            yield position


def _find(places: _Places, key: str, name: str) -> str | None:
    base = f"{key}/" if key else ""
    while True:
        candidate = f"{base}{_NODE_MODULES}{name}"
        if candidate in places:
            return candidate
        if not base:
            return None
        above, found, _ = base.rpartition(_NODE_MODULES)
        # Below a project's own directory, one directory at a time.
        base = above if found else base[:-1].rpartition("/")[0]
        base = f"{base.removesuffix('/')}/" if base else ""


def _asked(places: _Places, warnings: Warnings) -> Iterator[Requirement]:
    for place in places.values():
        if place.directory is not None:
            yield from requirements(place.entry, warnings)


def _top_level(lock: Lock, places: _Places) -> dict[str, str]:
    """Of a package in several versions, the one that a project without a root here gets."""
    if "" in places:
        return {}
    notes = {}
    for key in places:
        name = key.removeprefix(_NODE_MODULES)
        position = lock.position(key)
        if position is not None and _NODE_MODULES not in name and len(lock.named(name)) > 1:
            notes[name] = str(position)
    return notes

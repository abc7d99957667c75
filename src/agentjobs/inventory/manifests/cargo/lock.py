"""Reads Cargo.lock in all its versions.

Crates without a source belong to the repository. Their requirements and scopes are in their
Cargo.toml files.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.inventory.manifests.cargo.workspace import OWN
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import Warnings, parse_lock_toml
from agentjobs.inventory.model import ParsedManifest

ECOSYSTEM = "crates.io"

# `name`, `name version` or `name version (source)`, as far as needed to be unambiguous. The same
# version from two sources counts as one package.
_REFERENCE = re.compile(r"(\S+)(?: ([^\s()]+))?")
_BULK = re.compile(rb'^"?checksum[^\n]*\n', re.MULTILINE)
# More versions of one crate than any build has in practice.
_MAX_VERSIONS = 50

_Positions = dict[tuple[str, str], dict[int, None]]


class _Crate(msgspec.Struct):
    name: str
    version: str
    source: str = ""
    dependencies: list[str] = []


def read_cargo_lock(content: bytes) -> ParsedManifest:
    document, reason = parse_lock_toml(content, _BULK)
    warnings = Warnings((reason,) if reason else ())
    listed = document.get("package")
    entries = [*(listed if isinstance(listed, list) else []), document.get("root")]
    crates = list(_crates((entry for entry in entries if entry is not None), warnings))
    lock, positions = _build_lock([crate for crate in crates if crate.source], warnings)
    return ParsedManifest(
        ECOSYSTEM,
        packages=lock.packages(),
        notes=_own_requirements(crates, positions),
        warnings=warnings.all(),
    )


def _own_requirements(crates: list[_Crate], positions: _Positions) -> dict[str, str]:
    """The positions required by each of the repository's own crates."""
    notes = {}
    for crate in crates:
        if not crate.source:
            required = dict.fromkeys(_required(positions, crate))
            notes[OWN + crate.name] = " ".join(map(str, required))
    return notes


def _crates(entries: Iterable[object], warnings: Warnings) -> Iterator[_Crate]:
    for entry in entries:
        try:
            yield msgspec.convert(entry, _Crate)
        except msgspec.ValidationError as error:
            warnings.add(f"a package is left out: {str(error)[:200]}")


def _build_lock(crates: list[_Crate], warnings: Warnings) -> tuple[Lock, _Positions]:
    lock, positions = Lock(warnings), _Positions()
    for crate in crates:
        name, version = crate.name, crate.version
        lock.add((name, version), name, version)
        position = lock.position((name, version))
        for key in ((name, ""), (name, version)):
            known = positions.setdefault(key, {})
            if position is not None and len(known) < _MAX_VERSIONS:
                known[position] = None
    for crate in crates:
        lock.require((crate.name, crate.version), _required(positions, crate))
    return lock, positions


def _required(positions: _Positions, crate: _Crate) -> Iterator[int]:
    for reference in crate.dependencies:
        if parts := _REFERENCE.match(reference):
            yield from positions.get((parts[1], parts[2] or ""), ())

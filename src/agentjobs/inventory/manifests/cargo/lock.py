"""Reads Cargo.lock in all its versions.

Crates without a source are the repository's own. What they ask for, and what of it is only for
tests, is the business of their Cargo.toml files.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.inventory.manifests.cargo.workspace import OWN
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import Unreadable, Warnings, parse_lock_toml
from agentjobs.inventory.model import ParsedManifest

ECOSYSTEM = "crates.io"

# `name`, `name version` or `name version (source)`: as much as it takes to be unmistakable. The
# same version from two sources is one package here.
_REFERENCE = re.compile(r"(\S+)(?: ([^\s()]+))?")
_BULK = re.compile(rb'^"?checksum[^\n]*\n', re.MULTILINE)
# More versions of one crate than any build holds would be an attack.
_MAX_VERSIONS = 50

_Places = dict[tuple[str, str], dict[int, None]]


class _Crate(msgspec.Struct):
    name: str
    version: str
    source: str = ""
    dependencies: list[str] = []


def read_cargo_lock(content: bytes) -> ParsedManifest:
    try:
        document, reason = parse_lock_toml(content, _BULK)
    except Unreadable as error:
        return ParsedManifest(ECOSYSTEM, warnings=(str(error),))
    warnings = Warnings((reason,) if reason else ())
    listed = document.get("package")
    entries = [*(listed if isinstance(listed, list) else []), document.get("root")]
    crates = list(_crates((each for each in entries if each is not None), warnings))
    lock, places = _locked([crate for crate in crates if crate.source], warnings)
    return ParsedManifest(
        ECOSYSTEM,
        packages=lock.packages(),
        notes=_asked(crates, places),
        warnings=warnings.all(),
    )


def _asked(crates: list[_Crate], places: _Places) -> dict[str, str]:
    """Positions of what each of the repository's own crates asks for."""
    notes = {}
    for crate in crates:
        if not crate.source:
            asked = dict.fromkeys(_required(places, crate))
            notes[OWN + crate.name] = " ".join(map(str, asked))
    return notes


def _crates(entries: Iterable[object], warnings: Warnings) -> Iterator[_Crate]:
    for entry in entries:
        try:
            yield msgspec.convert(entry, _Crate)
        except msgspec.ValidationError as error:
            warnings.add(f"a package was left out: {str(error)[:200]}")


def _locked(crates: list[_Crate], warnings: Warnings) -> tuple[Lock, _Places]:
    lock, places = Lock(warnings), _Places()
    for crate in crates:
        name, version = crate.name, crate.version
        lock.add((name, version), name, version)
        place = lock.position((name, version))
        for key in ((name, ""), (name, version)):
            known = places.setdefault(key, {})
            if place is not None and len(known) < _MAX_VERSIONS:
                known[place] = None
    for crate in crates:
        lock.require((crate.name, crate.version), _required(places, crate))
    return lock, places


def _required(places: _Places, crate: _Crate) -> Iterator[int]:
    for reference in crate.dependencies:
        if parts := _REFERENCE.match(reference):
            yield from places.get((parts[1], parts[2] or ""), ())

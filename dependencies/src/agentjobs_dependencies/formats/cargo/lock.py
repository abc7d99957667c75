"""Reads Cargo.lock in all its versions.

Crates without a source belong to the repository. Their requirements and scopes are in their
Cargo.toml files.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.text import Warnings, parse_lock_toml
from agentjobs_dependencies.model import ParsedManifest, Root

ECOSYSTEM = "crates.io"

# `name`, `name version` or `name version (source)`, as far as needed to be unambiguous. The same
# version from two sources counts as one package.
_REFERENCE = re.compile(r"(\S+)(?: ([^\s()]+))?")
_BULK = re.compile(rb'^"?checksum[^\n]*\n', re.MULTILINE)


class Crate(NamedTuple):
    """`source` is empty for a crate of the repository."""

    name: str
    version: str
    source: str = ""
    dependencies: tuple[str, ...] = ()


def read_cargo_lock(content: bytes) -> ParsedManifest:
    document, reason = read_document(content)
    warnings = Warnings((reason,) if reason else ())
    root = [document["root"]] if "root" in document else []
    crates = [*read_crates(document.get("package"), warnings), *read_crates(root, warnings)]
    lock = _build_lock([crate for crate in crates if crate.source], warnings)
    return ParsedManifest(
        ECOSYSTEM,
        packages=lock.packages(),
        # Where a crate of the repository is, only its Cargo.toml says.
        roots=tuple(
            Root(crate.name, tuple(dict.fromkeys(_required(lock, crate))))
            for crate in crates
            if not crate.source
        ),
        warnings=warnings.all(),
    )


def read_document(content: bytes) -> tuple[dict[str, Any], str | None]:
    """Reads a lock file without checksums, and why it is incomplete."""
    return parse_lock_toml(content, _BULK)


def read_crates(entries: object, warnings: Warnings) -> Iterator[Crate]:
    for entry in entries if isinstance(entries, list) else ():
        crate = _read_crate(entry)
        if crate is None:
            warnings.add(f"a package is left out: {str(entry)[:100]!r}")
        else:
            yield crate


def _read_crate(entry: object) -> Crate | None:
    """None for an invalid entry."""
    table = {"source": "", "dependencies": [], **(entry if isinstance(entry, dict) else {})}
    match table:
        case {"name": str(), "version": str(), "source": str(), "dependencies": list(required)}:
            is_valid = all(isinstance(name, str) for name in required)
        case _:
            return None
    crate = Crate(table["name"], table["version"], table["source"], tuple(required))
    return crate if is_valid else None


def _build_lock(crates: list[Crate], warnings: Warnings) -> Lock:
    lock = Lock(warnings)
    for crate in crates:
        lock.add((crate.name, crate.version), crate.name, crate.version)
    for crate in crates:
        lock.require((crate.name, crate.version), _required(lock, crate))
    return lock


def _required(lock: Lock, crate: Crate) -> Iterator[int]:
    for reference in crate.dependencies:
        parts = _REFERENCE.match(reference)
        if parts and parts[2]:
            position = lock.position((parts[1], parts[2]))
            yield from () if position is None else (position,)
        elif parts:
            yield from lock.named(parts[1])

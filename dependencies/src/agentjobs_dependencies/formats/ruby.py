"""Reads Gemfile.lock. Gems in directories of the repository are not packages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.text import Warnings, decode
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root

ECOSYSTEM = "RubyGems"

_SECTION = re.compile(r"[A-Z][A-Z ]*")
_ENTRY = re.compile(r"( {2}| {4}| {6})([^\s()!]+)(?: \(([^()]*)\))?!?")
_SOURCES = frozenset({"GEM", "GIT", "PATH", "PLUGIN SOURCE"})
_EXACT = re.compile(r"= ?([0-9A-Za-z.]+)")


class _Entry(NamedTuple):
    section: str
    depth: int
    name: str
    constraint: str


@dataclass(slots=True)
class _Gems:
    """`locked` maps gems and versions to the names they require; `direct` maps the gems that the
    project requires to their constraints."""

    locked: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    direct: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


def read_gemfile_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings, invalid = Warnings(reasons), list[str]()
    gems = _gather(_entries(text, invalid))
    if invalid:
        first = invalid[0].strip()[:100]
        warnings.add(f"{len(invalid)} invalid lines, the first: {first}")
    return _build(gems, warnings)


def _entries(text: str, invalid: list[str]) -> Iterator[_Entry]:
    section = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0] != " ":
            section = line.strip()
            if not _SECTION.fullmatch(section):
                invalid.append(line)
        elif section == "DEPENDENCIES" or (section in _SOURCES and line.startswith("    ")):
            match = _ENTRY.fullmatch(line.rstrip())
            if match is None:
                invalid.append(line)
            else:
                yield _Entry(section, len(match[1]), match[2], match[3] or "")


def _gather(entries: Iterable[_Entry]) -> _Gems:
    gems = _Gems()
    requires: dict[str, None] | None = None
    for entry in entries:
        if entry.section == "DEPENDENCIES":
            gems.direct[entry.name] = entry.constraint
        elif entry.depth == 4 and entry.section == "PATH":
            gems.own.add(entry.name)
            requires = None
        elif entry.depth == 4:
            # Versions contain no hyphen; the platform follows one.
            version = entry.constraint.partition("-")[0]
            requires = gems.locked.setdefault((entry.name, version), {}) if version else {}
        elif requires is None:
            gems.direct.setdefault(entry.name, entry.constraint)
        else:
            requires[entry.name] = None
    return gems


def _build(gems: _Gems, warnings: Warnings) -> ParsedManifest:
    lock = Lock(warnings)
    for gem in gems.locked:
        lock.add(gem, *gem)
    for gem, requires in gems.locked.items():
        lock.require(gem, lock.all_named(requires))
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(
            (
                Requirement(name, constraint, _exact(constraint))
                for name, constraint in gems.direct.items()
                if name not in gems.own
            ),
            warnings,
        ),
        packages=lock.packages(),
        roots=(Root("", tuple(lock.all_named(gems.direct))),),
        warnings=warnings.all(),
    )


def _exact(constraint: str) -> str | None:
    match = _EXACT.fullmatch(constraint)
    return match[1] if match else None

"""Reads Gemfile.lock. What lies in a directory of the repository is its own code, not a package."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import Warnings, decode
from agentjobs.inventory.model import ParsedManifest, Requirement, Root

ECOSYSTEM = "RubyGems"

_SECTION = re.compile(r"[A-Z][A-Z ]*")
_ENTRY = re.compile(r"( {2}| {4}| {6})([^\s()!]+)(?: \(([^()]*)\))?!?")
_SOURCES = frozenset({"GEM", "GIT", "PATH", "PLUGIN SOURCE"})
_EXACT = re.compile(r"= ?([0-9A-Za-z.]+)")
# A gem is locked in a few versions at most, one for each platform; more would be an attack.
_MAX_VERSIONS = 20


class _Entry(msgspec.Struct, frozen=True):
    section: str
    depth: int
    name: str
    words: str


class _Gems(msgspec.Struct):
    """`locked` holds gems in their versions, with the names of what each requires; `asked` what
    the project itself asks for, in its words."""

    locked: dict[tuple[str, str], dict[str, None]] = {}
    asked: dict[str, str] = {}
    own: set[str] = set()


def read_gemfile_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings, stray = Warnings(reasons), list[str]()
    gems = _gather(_entries(text, stray))
    if stray:
        first = stray[0].strip()[:100]
        warnings.add(f"{len(stray)} lines make no sense in a Gemfile.lock, the first: {first}")
    return _facts(gems, warnings)


def _entries(text: str, stray: list[str]) -> Iterator[_Entry]:
    section = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0] != " ":
            section = line.strip()
            if not _SECTION.fullmatch(section):
                stray.append(line)
        elif section == "DEPENDENCIES" or (section in _SOURCES and line.startswith("    ")):
            found = _ENTRY.fullmatch(line.rstrip())
            if found is None:
                stray.append(line)
            else:
                yield _Entry(section, len(found[1]), found[2], found[3] or "")


def _gather(entries: Iterable[_Entry]) -> _Gems:
    gems = _Gems()
    requires: dict[str, None] | None = None
    for entry in entries:
        if entry.section == "DEPENDENCIES":
            gems.asked[entry.name] = entry.words
        elif entry.depth == 4 and entry.section == "PATH":
            gems.own.add(entry.name)
            requires = None
        elif entry.depth == 4:
            # A gem's own version has no hyphen: what follows one is the platform it is built for.
            version = entry.words.partition("-")[0]
            requires = gems.locked.setdefault((entry.name, version), {}) if version else {}
        elif requires is None:
            gems.asked.setdefault(entry.name, entry.words)
        else:
            requires[entry.name] = None
    return gems


def _facts(gems: _Gems, warnings: Warnings) -> ParsedManifest:
    lock = Lock(warnings)
    places: dict[str, list[int]] = {}
    for gem in gems.locked:
        lock.add(gem, *gem)
        place, known = lock.position(gem), places.setdefault(gem[0], [])
        if place is not None and len(known) < _MAX_VERSIONS:
            known.append(place)
    for gem, requires in gems.locked.items():
        lock.require(gem, _found(places, requires))
    return ParsedManifest(
        ECOSYSTEM,
        requirements=within_bounds(
            (
                Requirement(name, words, _exact(words))
                for name, words in gems.asked.items()
                if name not in gems.own
            ),
            warnings,
        ),
        packages=lock.packages(),
        roots=(Root("", tuple(_found(places, gems.asked))),),
        warnings=warnings.all(),
    )


def _found(places: dict[str, list[int]], names: Iterable[str]) -> Iterator[int]:
    return (place for name in names for place in places.get(name, ()))


def _exact(words: str) -> str | None:
    found = _EXACT.fullmatch(words)
    return found[1] if found else None

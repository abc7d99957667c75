"""What the projects of a lock file ask for themselves: where the ways to all packages begin."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import msgspec

from agentjobs.inventory.manifests.walk import stronger
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

# The projects of a large workspace ask for a package in many words: nobody reads them all.
_MAX_CHARACTERS = 500


class Asked(msgspec.Struct, frozen=True):
    """In what words, and in the strongest scope of all who ask."""

    text: str
    scope: Scope

    @classmethod
    def of(cls, requirements: Sequence[Requirement]) -> Self:
        scope: Scope = requirements[0].scope
        for each in requirements:
            scope = stronger(scope, each.scope)
        words = dict.fromkeys(each.specifier for each in requirements if each.specifier)
        text = " || ".join(words)
        return cls(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…", scope)


def seeds_of(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> dict[int, Asked]:
    """Positions in the lock file. Its own word about a project goes first; of projects it does not
    know, the requirements of the manifest are looked up by name."""
    wanted: dict[int, list[Requirement]] = {}
    for at, requirement in _pairs(lock, here, manifests):
        wanted.setdefault(at, []).append(requirement)
    if not wanted and not lock.roots and not any(manifests.values()):
        # Nothing tells: then what nobody requires is what was asked for.
        required = {at for package in lock.packages for at in package.requires}
        for at, package in enumerate(lock.packages):
            if at not in required:
                wanted[at] = [Requirement(package.name, "", None, package.scope)]
    return {at: Asked.of(requirements) for at, requirements in wanted.items()}


def _pairs(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> Iterator[tuple[int, Requirement]]:
    own = _by_name(lock.requirements)
    told: dict[str, set[str]] = {}
    by_directory = {at: _by_name(requirements) for at, requirements in manifests.items()}
    for root in lock.roots if not _is_guess(lock, here, manifests) else ():
        directory = posixpath.normpath(posixpath.join(here, root.directory))
        directory = "" if directory == "." else directory
        told[directory] = {lock.packages[at].name for at in root.packages}
        asked = by_directory.get(directory, {})
        for at in root.packages:
            package = lock.packages[at]
            words = asked.get(package.name) or own.get(package.name)
            for each in words or [Requirement(package.name, "", None, package.scope)]:
                yield at, each
    positions: dict[str, list[int]] = {}
    for at, package in enumerate(lock.packages):
        positions.setdefault(package.name, []).append(at)
    for directory, requirements in manifests.items():
        for each in requirements:
            found = _looked_up(lock, positions, each)
            # A lock file may leave out what it asks of others to bring (peers): by name, if clear.
            known = told.get(directory)
            if known is None or (len(found) == 1 and each.name not in known):
                yield from ((at, each) for at in found)


def _is_guess(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> bool:
    return lock.notes.get("roots") == "guessed" and bool(manifests.get(here))


def _looked_up(
    lock: ParsedManifest, positions: Mapping[str, list[int]], wanted: Requirement
) -> Sequence[int]:
    """Of several versions the lock file may tell, by range or name, which one is meant."""
    for key in (f"{wanted.name}@{wanted.specifier}", wanted.name):
        noted = lock.notes.get(key, "")
        if noted.isdecimal() and int(noted) < len(lock.packages):
            return [int(noted)]
    return positions.get(wanted.name, ())


def _by_name(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for each in requirements:
        found.setdefault(each.name, []).append(each)
    return found

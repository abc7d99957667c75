"""Finds which packages of a lock file its projects require directly."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope
from agentjobs_dependencies.package_paths import stronger

# The projects of a large workspace may specify many different ranges for one package.
_MAX_CHARACTERS = 500


class DirectRequirement(NamedTuple):
    """The ranges, and the strongest scope of all requirements."""

    text: str
    scope: Scope

    @classmethod
    def combine(cls, requirements: Sequence[Requirement]) -> Self:
        scope: Scope = requirements[0].scope
        for requirement in requirements:
            scope = stronger(scope, requirement.scope)
        specifiers = dict.fromkeys(
            requirement.specifier for requirement in requirements if requirement.specifier
        )
        text = " || ".join(specifiers)
        return cls(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…", scope)


def find_direct(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> dict[int, DirectRequirement]:
    """By position in the lock file. The lock file's own information about a project takes
    precedence; requirements of other projects are looked up by name."""
    by_position: dict[int, list[Requirement]] = {}
    for at, requirement in _pairs(lock, here, manifests):
        by_position.setdefault(at, []).append(requirement)
    if not by_position and not lock.roots and not any(manifests.values()):
        # Without other information, packages that no other package requires count as direct.
        required = {at for package in lock.packages for at in package.requires}
        for at, package in enumerate(lock.packages):
            if at not in required:
                by_position[at] = [Requirement(package.name, "", None, package.scope)]
    return {at: DirectRequirement.combine(requirements) for at, requirements in by_position.items()}


def _pairs(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> Iterator[tuple[int, Requirement]]:
    own = _by_name(lock.requirements)
    listed: dict[str, set[str]] = {}
    by_directory = {at: _by_name(requirements) for at, requirements in manifests.items()}
    for root in lock.roots if not _is_guess(lock, here, manifests) else ():
        directory = posixpath.normpath(posixpath.join(here, root.directory))
        directory = "" if directory == "." else directory
        listed[directory] = {lock.packages[at].name for at in root.packages}
        requirements_here = by_directory.get(directory, {})
        for at in root.packages:
            package = lock.packages[at]
            specified = requirements_here.get(package.name) or own.get(package.name)
            for requirement in specified or [Requirement(package.name, "", None, package.scope)]:
                yield at, requirement
    positions: dict[str, list[int]] = {}
    for at, package in enumerate(lock.packages):
        positions.setdefault(package.name, []).append(at)
    for directory, requirements in manifests.items():
        for requirement in requirements:
            candidates = _look_up(lock, positions, requirement)
            # A lock file may omit peer dependencies: look them up by name if that is unambiguous.
            known = listed.get(directory)
            if known is None or (len(candidates) == 1 and requirement.name not in known):
                yield from ((at, requirement) for at in candidates)


def _is_guess(
    lock: ParsedManifest, here: str, manifests: Mapping[str, Sequence[Requirement]]
) -> bool:
    return lock.notes.get("roots") == "guessed" and bool(manifests.get(here))


def _look_up(
    lock: ParsedManifest, positions: Mapping[str, list[int]], requirement: Requirement
) -> Sequence[int]:
    """The version that the lock file's notes name by range or name."""
    for key in (f"{requirement.name}@{requirement.specifier}", requirement.name):
        note = lock.notes.get(key, "")
        if note.isdecimal() and int(note) < len(lock.packages):
            return [int(note)]
    return positions.get(requirement.name, ())


def _by_name(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    by_name: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_name.setdefault(requirement.name, []).append(requirement)
    return by_name

"""What all manifests of a commit say together: one list of dependencies, each with the file that
fixes its version and the way that leads to it.

A lock file speaks for the manifests it covers; those that none covers speak for themselves.
"""

import posixpath
import re
from collections.abc import Container, Iterator, Mapping
from importlib import import_module
from itertools import islice

import msgspec

from agentjobs.inventory.manifests.coverage import LOCKS, Covered, Layout
from agentjobs.inventory.manifests.kinds import kind_of
from agentjobs.inventory.manifests.seeds import Asked, seeds_of
from agentjobs.inventory.manifests.walk import Reached, walk
from agentjobs.inventory.model import Dependency, IndexWarning, ParsedManifest, Requirement

# What files of an ecosystem settle among themselves before they are looked at one by one:
# module here, function `(facts: Mapping[str, ParsedManifest]) -> Mapping[str, ParsedManifest]`.
_COMPLETIONS = {"Maven": ("maven.pom", "complete"), "crates.io": ("cargo.manifest", "complete")}

# More than any repository has: the rest is left out before it fills the memory, here and where
# it is stored.
MAX_DEPENDENCIES = 100_000
MAX_CHARACTERS = 32_000_000
MAX_WARNINGS = 50_000

_WORDS = re.compile(r"[a-z]+")
_FOR_DEVELOPERS = frozenset({"ci", "dev", "develop", "development", "doc", "docs", "lint", "test"})


class Combined(msgspec.Struct, frozen=True):
    dependencies: tuple[Dependency, ...] = ()
    warnings: tuple[IndexWarning, ...] = ()


def combine(facts: Mapping[str, ParsedManifest]) -> Combined:
    facts = _completed(facts)
    layout = Layout(facts)
    all_of_them = _found(facts, layout)
    found = list(_bounded(all_of_them))
    warnings = layout.warnings
    if next(all_of_them, None) is not None:
        reason = f"more than {len(found)} packages: the rest was left out"
        warnings.append(IndexWarning("", reason))
    found.sort(key=lambda d: (d.manifest, not d.direct, d.name, d.version or "", d.parents))
    told = (IndexWarning(path, reason) for path in sorted(facts) for reason in facts[path].warnings)
    warnings += islice(told, MAX_WARNINGS)
    return Combined(tuple(found), tuple(warnings))


def _bounded(dependencies: Iterator[Dependency]) -> Iterator[Dependency]:
    left = MAX_CHARACTERS
    for each in islice(dependencies, MAX_DEPENDENCIES):
        left -= len(each.name) + len(each.requirement) + len(each.manifest)
        left -= sum(map(len, each.parents))
        yield each
        if left < 0:
            break


def _found(facts: Mapping[str, ParsedManifest], layout: Layout) -> Iterator[Dependency]:
    """Made one by one, in an order that tells the same repository the same end."""
    locks = list(layout.locks())
    silenced = {path for each in locks for paths in each.manifests.values() for path in paths}
    siblings = layout.siblings()
    for covered in locks:
        yield from _of_lock(facts, covered)
    for path in sorted(facts):
        if path not in silenced and kind_of(path) not in LOCKS:
            yield from _of_manifest(path, facts[path], siblings.get(path, set()))


def _completed(facts: Mapping[str, ParsedManifest]) -> Mapping[str, ParsedManifest]:
    present = {each.ecosystem for each in facts.values()}
    for ecosystem, (module, function) in _COMPLETIONS.items():
        if ecosystem in present:
            facts = getattr(import_module(f"{__package__}.{module}"), function)(facts)
    return facts


def _of_lock(facts: Mapping[str, ParsedManifest], covered: Covered) -> Iterator[Dependency]:
    lock = facts[covered.lock]
    here = posixpath.dirname(covered.lock)
    manifests = {
        directory: [r for path in paths for r in facts[path].requirements]
        for directory, paths in covered.manifests.items()
    }
    yield from _locked(covered.lock, lock, seeds_of(lock, here, manifests))
    if lock.warnings:
        # Part of it may be lost: what it does not know, the manifests still ask for.
        known = {package.name for package in lock.packages}
        for paths in covered.manifests.values():
            for path in paths:
                yield from _asked(path, facts[path], known)


def _of_manifest(path: str, facts: ParsedManifest, siblings: set[str]) -> Iterator[Dependency]:
    if kind_of(path) == "requirements.txt" and _is_for_developers(path):
        facts = _for_developers(facts)
    if facts.packages:
        # A list that a tool wrote in full: it is its own lock file.
        here = posixpath.dirname(path)
        yield from _locked(path, facts, seeds_of(facts, here, {here: facts.requirements}))
    known = {package.name for package in facts.packages}
    yield from _asked(path, facts, known, siblings)


def _is_for_developers(path: str) -> bool:
    """Files of requirements tell only by their name, or their directory's, what they are for."""
    directory, name = posixpath.split(path)
    words = {posixpath.basename(directory), *_WORDS.findall(name.lower())}
    return not _FOR_DEVELOPERS.isdisjoint({*words, *(word.removesuffix("s") for word in words)})


def _for_developers(facts: ParsedManifest) -> ParsedManifest:
    replace = msgspec.structs.replace
    return replace(
        facts,
        requirements=tuple(replace(each, scope="dev") for each in facts.requirements),
        packages=tuple(replace(each, scope="dev") for each in facts.packages),
    )


def _locked(path: str, lock: ParsedManifest, seeds: Mapping[int, Asked]) -> Iterator[Dependency]:
    reached = walk(lock.packages, {at: asked.scope for at, asked in seeds.items()})
    for at, package in enumerate(lock.packages):
        way = reached.get(at) or Reached(package.scope)
        asked = seeds.get(at)
        yield Dependency(
            ecosystem=lock.ecosystem,
            name=package.name,
            version=package.version,
            requirement=asked.text if asked else "",
            direct=asked is not None,
            scope=way.scope,
            manifest=path,
            parents=way.parents,
        )


def _asked(
    path: str, facts: ParsedManifest, known: set[str], siblings: Container[str] = ()
) -> Iterator[Dependency]:
    """What a manifest asks for that nothing else fixes: one for each name and version."""
    together: dict[tuple[str, str | None], list[Requirement]] = {}
    for requirement in facts.requirements:
        if requirement.name not in known and requirement.name not in siblings:
            together.setdefault((requirement.name, requirement.version), []).append(requirement)
    for (name, version), requirements in together.items():
        asked = Asked.of(requirements)
        yield Dependency(facts.ecosystem, name, version, asked.text, True, asked.scope, path)

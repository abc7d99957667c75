"""Combines the manifests of a commit into one list of dependencies, each with the file that pins
its version and the path from a direct dependency.

A lock file replaces the manifests that it covers; other manifests are used themselves.
"""

import posixpath
import re
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from agentjobs_dependencies.coverage import LOCKS, Layout, LockCoverage
from agentjobs_dependencies.direct_requirements import DirectRequirement, find_direct
from agentjobs_dependencies.formats.cargo.workspace import complete as complete_crates
from agentjobs_dependencies.formats.kinds import detect_kind
from agentjobs_dependencies.formats.maven.inheritance import complete as complete_poms
from agentjobs_dependencies.formats.maven.published import PublishedPoms
from agentjobs_dependencies.model import Dependency, IndexWarning, ParsedManifest, Requirement
from agentjobs_dependencies.package_paths import PackagePath, find_paths

# More than any repository has; limits memory here and in the store.
MAX_DEPENDENCIES = 100_000
MAX_CHARACTERS = 32_000_000
MAX_WARNINGS = 50_000

_WORD = re.compile(r"[a-z]+")
_DEVELOPMENT_NAMES = frozenset(
    {"ci", "dev", "develop", "development", "doc", "docs", "lint", "test"}
)


class Combined(NamedTuple):
    dependencies: tuple[Dependency, ...] = ()
    warnings: tuple[IndexWarning, ...] = ()


def combine(
    manifests: Mapping[str, ParsedManifest], published: PublishedPoms | None = None
) -> Combined:
    manifests = _complete(manifests, published)
    layout = Layout(manifests)
    combined = _find_dependencies(manifests, layout)
    dependencies = list(_limit(combined))
    warnings = layout.warnings
    if next(combined, None) is not None:
        reason = f"more than {len(dependencies)} packages: the rest is left out"
        warnings.append(IndexWarning("", reason))
    dependencies.sort(key=lambda d: (d.manifest, not d.direct, d.name, d.version or "", d.parents))
    reader_warnings = (
        IndexWarning(path, reason)
        for path in sorted(manifests)
        for reason in manifests[path].warnings
    )
    warnings += islice(reader_warnings, MAX_WARNINGS)
    return Combined(tuple(dependencies), tuple(warnings))


def _limit(dependencies: Iterator[Dependency]) -> Iterator[Dependency]:
    remaining = MAX_CHARACTERS
    for package in islice(dependencies, MAX_DEPENDENCIES):
        remaining -= len(package.name) + len(package.requirement) + len(package.manifest)
        remaining -= sum(map(len, package.parents)) + len(package.managed_by)
        yield package
        if remaining < 0:
            break


def _find_dependencies(
    manifests: Mapping[str, ParsedManifest], layout: Layout
) -> Iterator[Dependency]:
    """Lazily, in an order that depends only on the repository."""
    locks = list(layout.locks())
    covered = {path for lock in locks for paths in lock.manifests.values() for path in paths}
    siblings = layout.siblings()
    for coverage in locks:
        yield from _from_lock(manifests, coverage)
    for path in sorted(manifests):
        if path not in covered and detect_kind(path) not in LOCKS:
            yield from _from_manifest(path, manifests[path], siblings.get(path, set()))


def _complete(
    manifests: Mapping[str, ParsedManifest], published: PublishedPoms | None
) -> Mapping[str, ParsedManifest]:
    """Manifests of one ecosystem complete each other."""
    present = {manifest.ecosystem for manifest in manifests.values()}
    if "Maven" in present:
        manifests = complete_poms(manifests, published)
    if "crates.io" in present:
        manifests = complete_crates(manifests)
    return manifests


def _from_lock(
    manifests: Mapping[str, ParsedManifest], coverage: LockCoverage
) -> Iterator[Dependency]:
    lock = manifests[coverage.lock]
    here = posixpath.dirname(coverage.lock)
    requirements = {
        directory: [r for path in paths for r in manifests[path].requirements]
        for directory, paths in coverage.manifests.items()
    }
    yield from _from_packages(coverage.lock, lock, find_direct(lock, here, requirements))
    if lock.warnings:
        # The lock file may be incomplete: add requirements of the manifests that it lacks.
        known = {package.name for package in lock.packages}
        for paths in coverage.manifests.values():
            for path in paths:
                yield from _from_requirements(path, manifests[path], known)


def _from_manifest(path: str, manifest: ParsedManifest, siblings: set[str]) -> Iterator[Dependency]:
    if detect_kind(path) == "requirements.txt" and _is_for_development(path):
        manifest = _with_dev_scope(manifest)
    if manifest.packages:
        # A complete list written by a tool, which serves as its own lock file.
        here = posixpath.dirname(path)
        direct = find_direct(manifest, here, {here: manifest.requirements})
        yield from _from_packages(path, manifest, direct)
    known = {package.name for package in manifest.packages}
    yield from _from_requirements(path, manifest, known, siblings)


def _is_for_development(path: str) -> bool:
    """Decided by the name of a requirements file or its directory."""
    directory, name = posixpath.split(path)
    words = {posixpath.basename(directory), *_WORD.findall(name.lower())}
    return not _DEVELOPMENT_NAMES.isdisjoint({*words, *(word.removesuffix("s") for word in words)})


def _with_dev_scope(manifest: ParsedManifest) -> ParsedManifest:
    return manifest._replace(
        requirements=tuple(item._replace(scope="dev") for item in manifest.requirements),
        packages=tuple(item._replace(scope="dev") for item in manifest.packages),
    )


def _from_packages(
    manifest_path: str, lock: ParsedManifest, direct: Mapping[int, DirectRequirement]
) -> Iterator[Dependency]:
    paths = find_paths(lock.packages, {at: required.scope for at, required in direct.items()})
    for at, package in enumerate(lock.packages):
        path = paths.get(at) or PackagePath(package.scope)
        requirement = direct.get(at)
        yield Dependency(
            ecosystem=lock.ecosystem,
            name=package.name,
            version=package.version,
            requirement=requirement.text if requirement else "",
            direct=requirement is not None,
            scope=path.scope,
            manifest=manifest_path,
            parents=path.parents,
        )


def _from_requirements(
    path: str, manifest: ParsedManifest, known: set[str], siblings: Container[str] = ()
) -> Iterator[Dependency]:
    """Requirements that no lock file pins: one dependency for each name and version."""
    grouped: dict[tuple[str, str | None], list[Requirement]] = {}
    for requirement in manifest.requirements:
        if requirement.name not in known and requirement.name not in siblings:
            grouped.setdefault((requirement.name, requirement.version), []).append(requirement)
    for (name, version), requirements in grouped.items():
        direct = DirectRequirement.combine(requirements)
        managed_by = min(requirement.managed_by for requirement in requirements)
        yield Dependency(
            ecosystem=manifest.ecosystem,
            name=name,
            version=version,
            requirement=direct.text,
            direct=True,
            scope=direct.scope,
            manifest=path,
            managed_by=managed_by,
        )

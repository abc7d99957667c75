"""Chooses the version that a vulnerable package should be upgraded to, and explains the choice."""

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import inf
from typing import Any, Literal, Protocol

import msgspec
from packaging.version import Version

from agentjobs_dependencies.advisories.dependency_matching import Finding, Package
from agentjobs_dependencies.advisories.matching import affects, by_package, fixed_versions
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.severity import find_severity
from agentjobs_dependencies.fixes.model import Candidate
from agentjobs_dependencies.registries.versions import (
    Published,
    PublishedVersion,
    RegistryUnavailable,
)
from agentjobs_dependencies.versions.order import (
    is_prerelease,
    is_pseudo_version,
    parse_major,
    version_key,
)

Source = Literal["registry", "advisories"]

# Variants that some Maven packages publish of each version, which are not interchangeable.
_VARIANT = re.compile(r"[.-]((?:jre|jdk|java)\d*|android)$", re.IGNORECASE)
_MAX_SKIPPED = 3
_MAX_TIME_REQUESTS = 10
_CHOICES_AT_ONCE = 8
_DAY_SECONDS = 86_400


class Choice(msgspec.Struct, frozen=True):
    """`version` is None if there is no safe version. `source` is where the candidates come from.

    `hashes` are those of the version's files, if the registry lists them. `candidates` are the
    version and the next best ones, if they were asked for; `undated` those of them that the
    registry lists without a time, although their age matters.
    """

    version: str | None
    reason: str
    source: Source
    hashes: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    undated: tuple[str, ...] = ()


class Registry(Protocol):
    async def fetch_published(self, ecosystem: str, name: str) -> Published:
        """All versions; empty if the registry does not have the package.

        Raises RegistryUnavailable.
        """

    async def published_at(self, ecosystem: str, name: str, version: str) -> int | None:
        """When a version was published, if the list of versions has no times; None if unknown."""


class VersionChooser(Protocol):
    async def choose(
        self,
        ecosystem: str,
        name: str,
        version: str,
        advisories: Sequence[Advisory],
        candidates: int = 1,
    ) -> Choice: ...


class RegistryVersionChooser:
    """Chooses among the versions that the registry lists; the registry caches its responses.

    A version younger than `min_age_days` is not chosen, unless it fixes a critical vulnerability.
    """

    def __init__(self, registry: Registry, min_age_days: float = 0) -> None:
        self._registry = registry
        self._min_age_days = min_age_days

    async def choose(
        self,
        ecosystem: str,
        name: str,
        version: str,
        advisories: Sequence[Advisory],
        candidates: int = 1,
    ) -> Choice:
        """`advisories` are all known advisories of the package, not only those of this version."""
        try:
            published = await self._registry.fetch_published(ecosystem, name)
        except RegistryUnavailable:
            # Already logged. The versions that advisories call fixed are still candidates.
            published = None
        published_before = int((time.time() - self._min_age_days * _DAY_SECONDS) * 1_000)
        times: dict[str, int | None] = {}
        while True:
            # Slow for a package with hundreds of advisories and versions.
            choice = await asyncio.to_thread(
                choose_version,
                *(ecosystem, name, version, advisories),
                _with_times(published, times),
                published_before,
                candidates,
            )
            undated = [version for version in choice.undated if version not in times]
            if published is None or not undated or len(times) > _MAX_TIME_REQUESTS:
                return choice
            asked = (self._registry.published_at(ecosystem, name, version) for version in undated)
            received = dict(zip(undated, await asyncio.gather(*asked), strict=True))
            times |= received
            if all((published_at or 0) <= published_before for published_at in received.values()):
                return choice


async def choose_versions(
    chooser: VersionChooser,
    findings: Sequence[Finding],
    advisories: Sequence[Advisory],
    candidates: int = 1,
) -> dict[Package, Choice]:
    by_name = by_package(advisories, {finding.package[:2] for finding in findings})
    slots = asyncio.Semaphore(_CHOICES_AT_ONCE)

    async def choose(package: Package) -> Choice:
        ecosystem, name, version = package
        async with slots:
            return await chooser.choose(
                ecosystem, name, version, by_name[ecosystem, name], candidates
            )

    packages = list(dict.fromkeys(finding.package for finding in findings))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(choose(package)) for package in packages]
    return {package: task.result() for package, task in zip(packages, tasks, strict=True)}


def choose_version(
    ecosystem: str,
    name: str,
    current: str,
    advisories: Sequence[Advisory],
    published: Published | None,
    published_before: int | None = None,
    max_candidates: int = 1,
) -> Choice:
    """The lowest version above `current` that none of the advisories affects, same major first.

    `advisories` are all known advisories of the package. `published` is None if the registry is
    unreachable: then only versions that advisories call fixed are candidates. Versions published
    after `published_before` are no candidates, unless a critical advisory affects `current`.
    """
    package = _Package(ecosystem, name, current, advisories)
    source: Source = "advisories" if published is None else "registry"
    no_choice_reason = package.reason_for_no_choice()
    if no_choice_reason:
        return Choice(None, no_choice_reason, source)
    candidates = _candidates(package, published)
    is_urgent = published_before is None or package.is_critical()
    newest_allowed = inf if is_urgent or published_before is None else published_before
    young = [item for item in candidates if (item.published_at or 0) > newest_allowed]
    candidates = [item for item in candidates if (item.published_at or 0) <= newest_allowed]
    safe = list(islice(filter(package.is_safe, package.rank(candidates)), max_candidates))
    if not safe:
        reason = _explain_young(package, young) or _explain_none(package, candidates, published)
        return Choice(None, reason, source)
    chosen = safe[0]
    reason = _explain(package, chosen, published)
    return Choice(
        package.as_written(chosen.version),
        reason,
        source,
        chosen.hashes,
        candidates=tuple(
            Candidate(package.as_written(item.version), item.requires, item.hashes) for item in safe
        ),
        undated=tuple(item.version for item in safe if item.published_at is None and not is_urgent),
    )


def _with_times(published: Published | None, times: Mapping[str, int | None]) -> Published | None:
    """Adds the times of versions that the registry's list does not have."""
    if published is None or not times:
        return published
    return Published(
        tuple(
            msgspec.structs.replace(item, published_at=times.get(item.version, item.published_at))
            for item in published.versions
        )
    )


class _Package:
    """The package at its current version, and its advisories."""

    def __init__(
        self, ecosystem: str, name: str, current: str, advisories: Sequence[Advisory]
    ) -> None:
        self.ecosystem = ecosystem
        self.name = name
        self.current = current
        self.advisories = advisories
        self.key = version_key(ecosystem, current)
        self.affecting = [item for item in advisories if affects(item, ecosystem, name, current)]

    def reason_for_no_choice(self) -> str:
        if self.key is None:
            return f"{self.current!r} is not a valid {self.ecosystem} version."
        return "" if self.affecting else f"No known advisory affects {self.name} {self.current}."

    def is_critical(self) -> bool:
        levels = (find_severity(item, self.advisories).level for item in self.affecting)
        return "critical" in levels

    def parse_key(self, version: str) -> Any:
        return version_key(self.ecosystem, version)

    def parse_major(self, version: str) -> Any:
        return parse_major(self.ecosystem, version)

    def keeps_major(self, version: str) -> bool:
        return bool(self.parse_major(version) == self.parse_major(self.current))

    def is_above(self, version: str) -> bool:
        key = self.parse_key(version)
        return key is not None and bool(key > self.key)

    def affected_by(self, version: str) -> Advisory | None:
        hits = (a for a in self.advisories if affects(a, self.ecosystem, self.name, version))
        return next(hits, None)

    def is_safe(self, candidate: PublishedVersion) -> bool:
        return self.affected_by(candidate.version) is None

    def fixes(self, advisories: Iterable[Advisory]) -> dict[str, None]:
        """The versions that the advisories call fixed, in their order."""
        fixed = (fixed_versions(item, self.ecosystem, self.name) for item in advisories)
        return dict.fromkeys(version for versions in fixed for version in versions)

    def rank(self, candidates: Iterable[PublishedVersion]) -> list[PublishedVersion]:
        """Allowed candidates, best first. Does not check whether they are safe, which is slow."""
        allows_prereleases = is_prerelease(self.ecosystem, self.current)
        allowed = (
            candidate
            for candidate in candidates
            if allows_prereleases or not is_prerelease(self.ecosystem, candidate.version)
        )
        return sorted(allowed, key=lambda candidate: self._rank(candidate.version))

    def _rank(self, version: str) -> tuple[bool, bool, bool, Any]:
        # A release is upgraded to a commit only if no release has the fix.
        leaves_releases = self.is_pseudo(version) and not self.is_pseudo(self.current)
        changes_variant = _parse_variant(self.ecosystem, version) != _parse_variant(
            self.ecosystem, self.current
        )
        return (
            leaves_releases,
            changes_variant,
            not self.keeps_major(version),
            self.parse_key(version),
        )

    def is_pseudo(self, version: str) -> bool:
        return is_pseudo_version(self.ecosystem, version)

    def normalize(self, version: str) -> str:
        """The registry's spelling, so that the same fix is not listed twice."""
        return str(Version(version)) if self.ecosystem == "PyPI" else version

    def as_written(self, version: str) -> str:
        """In Go, with the prefix and suffix of the current version."""
        if self.ecosystem != "Go":
            return version
        prefix = "v" if self.current.startswith("v") else ""
        suffix = "+incompatible" if self.current.endswith("+incompatible") else ""
        return f"{prefix}{version.removeprefix('v').removesuffix(suffix)}{suffix}"


def _candidates(package: _Package, published: Published | None) -> list[PublishedVersion]:
    """Versions above the current one that are not withdrawn."""
    fixed = dict.fromkeys(map(package.normalize, package.fixes(package.advisories)))
    if published is None:
        versions = [PublishedVersion(version) for version in fixed]
    else:
        listed = [item for item in published.versions if not item.yanked]
        unlisted = [PublishedVersion(version) for version in fixed if package.is_pseudo(version)]
        versions = [*listed, *unlisted]
    return [item for item in versions if package.is_above(item.version)]


def _explain(package: _Package, chosen: PublishedVersion, published: Published | None) -> str:
    version = package.as_written(chosen.version)
    above = f"above {package.current} that no known advisory affects"
    if published is None:
        first = (
            f"The {package.ecosystem} registry is unreachable: of the versions that advisories "
            f"call fixed, {version} is the lowest {above}"
        )
    elif package.is_pseudo(chosen.version):
        first = f"{version}, the commit that an advisory calls fixed, is the lowest version {above}"
    else:
        first = f"{version} is the lowest published version {above}"
    if package.keeps_major(chosen.version):
        change = "it keeps the major version."
    else:
        major = package.parse_major(package.current)
        change = f"no version of major {major} is unaffected, so the major version changes."
    return " ".join((f"{first}; {change}", *_explain_skipped(package, chosen.version)))


def _explain_skipped(package: _Package, chosen: str) -> Iterator[str]:
    """Explain why the version that an advisory calls fixed was not chosen."""
    lower = [
        (version, hit)
        for version in package.fixes(package.affecting)
        if package.is_above(version)
        and package.parse_key(version) < package.parse_key(chosen)
        and (hit := package.affected_by(version)) is not None
    ]
    for version, hit in lower[:_MAX_SKIPPED]:
        yield f"{package.as_written(version)} is called fixed, but {hit.id} affects it."


def _explain_young(package: _Package, young: Sequence[PublishedVersion]) -> str:
    """Empty if no version is only too young."""
    chosen = next(filter(package.is_safe, package.rank(young)), None)
    if chosen is None or chosen.published_at is None:
        return ""
    version = package.as_written(chosen.version)
    return (
        f"{version} fixes it, but was published only on {_date(chosen.published_at)} "
        "(the setting minimum_release_age_days): it is proposed when it is old enough."
    )


def _explain_none(
    package: _Package, candidates: Sequence[PublishedVersion], published: Published | None
) -> str:
    if published is None:
        return (
            f"The {package.ecosystem} registry is unreachable, and advisories affect every version "
            f"of {package.name} above {package.current} that is called fixed."
        )
    if not published.versions and not candidates:
        return f"The {package.ecosystem} registry lists no version of {package.name}."
    if not candidates:
        return f"No version of {package.name} above {package.current} is published."
    by_version = sorted(candidates, key=lambda candidate: package.parse_key(candidate.version))
    prerelease = next(filter(package.is_safe, by_version), None)
    if prerelease is not None:
        return (
            f"Only prereleases of {package.name} above {package.current}, such as "
            f"{prerelease.version}, have no known advisories."
        )
    return f"Known advisories affect every version of {package.name} above {package.current}."


def _parse_variant(ecosystem: str, version: str) -> str:
    match = _VARIANT.search(version) if ecosystem == "Maven" else None
    return match[1].lower() if match else ""


def _date(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).date().isoformat()

"""Chooses the version that a vulnerable package should be upgraded to, and explains the choice."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from packaging.version import Version

from agentjobs.advisories.matching import affects, fixed_versions
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.registries.registry import Registry
from agentjobs.advisories.registries.versions import (
    Published,
    PublishedVersion,
    RegistryUnavailable,
)
from agentjobs.advisories.versions import (
    is_prerelease,
    is_pseudo_version,
    major_of,
    version_key,
)

Source = Literal["registry", "advisories"]

# What some Maven packages build of each version: one is no replacement for the other.
_FLAVOUR = re.compile(r"[.-]((?:jre|jdk|java)\d*|android)$", re.IGNORECASE)
_MAX_PASSED_OVER = 3


class Choice(msgspec.Struct, frozen=True):
    """`version` is None where there is none to go to. `source` is who named the candidates.

    `hashes` are of the version's files, where the registry told them.
    """

    version: str | None
    reason: str
    source: Source
    hashes: tuple[str, ...] = ()


class RegistryVersionChooser:
    """Chooses among the versions that the registry lists; the registry caches its responses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def choose(
        self, ecosystem: str, name: str, version: str, advisories: Sequence[Advisory]
    ) -> Choice:
        """`advisories` are all known advisories of the package, not only those of this version."""
        try:
            published = await self._registry.published(ecosystem, name)
        except RegistryUnavailable:
            # Already logged. The versions that advisories call fixed are still candidates.
            published = None
        # Slow for a package with hundreds of advisories and versions.
        return await asyncio.to_thread(
            choose_version, ecosystem, name, version, advisories, published
        )


def choose_version(
    ecosystem: str,
    name: str,
    current: str,
    advisories: Sequence[Advisory],
    published: Published | None,
) -> Choice:
    """The lowest version above `current` that none of the advisories affects, same major first.

    `advisories` are all that are known of the package. `published` is None if the registry could
    not be asked: then only what the advisories call fixed is a candidate.
    """
    package = _Package(ecosystem, name, current, advisories)
    source: Source = "advisories" if published is None else "registry"
    refusal = package.why_not_asked()
    if refusal:
        return Choice(None, refusal, source)
    candidates = _candidates(package, published)
    chosen = next(filter(package.is_safe, package.in_order(candidates)), None)
    if chosen is None:
        return Choice(None, _why_none(package, candidates, published), source)
    reason = _why(package, chosen, published)
    return Choice(package.as_written(chosen.version), reason, source, chosen.hashes)


class _Package:
    """The package at its current version, and what is known of it."""

    def __init__(
        self, ecosystem: str, name: str, current: str, advisories: Sequence[Advisory]
    ) -> None:
        self.ecosystem = ecosystem
        self.name = name
        self.current = current
        self.advisories = advisories
        self.key = version_key(ecosystem, current)
        self.affecting = [one for one in advisories if affects(one, ecosystem, name, current)]

    def why_not_asked(self) -> str:
        if self.key is None:
            return f"{self.current!r} is no version that {self.ecosystem} could compare to others."
        return "" if self.affecting else f"No known advisory affects {self.name} {self.current}."

    def key_of(self, version: str) -> Any:
        return version_key(self.ecosystem, version)

    def major_of(self, version: str) -> Any:
        return major_of(self.ecosystem, version)

    def keeps_major(self, version: str) -> bool:
        return bool(self.major_of(version) == self.major_of(self.current))

    def is_above(self, version: str) -> bool:
        key = self.key_of(version)
        return key is not None and bool(key > self.key)

    def affected_by(self, version: str) -> Advisory | None:
        hits = (one for one in self.advisories if affects(one, self.ecosystem, self.name, version))
        return next(hits, None)

    def is_safe(self, candidate: PublishedVersion) -> bool:
        return self.affected_by(candidate.version) is None

    def fixes(self, advisories: Iterable[Advisory]) -> dict[str, None]:
        """The versions that these call fixed, in their order."""
        named = (fixed_versions(one, self.ecosystem, self.name) for one in advisories)
        return dict.fromkeys(version for versions in named for version in versions)

    def in_order(self, candidates: Iterable[PublishedVersion]) -> list[PublishedVersion]:
        """Those that may be chosen, the best first. Whether one is safe is the costly question,
        so nobody is asked it before its turn."""
        admits_prereleases = is_prerelease(self.ecosystem, self.current)
        admitted = (
            one
            for one in candidates
            if admits_prereleases or not is_prerelease(self.ecosystem, one.version)
        )
        return sorted(admitted, key=lambda one: self._rank(one.version))

    def _rank(self, version: str) -> tuple[bool, bool, bool, Any]:
        # From a release to a commit only if no release has the fix.
        leaves_releases = self.is_pseudo(version) and not self.is_pseudo(self.current)
        changes_flavour = _flavour_of(self.ecosystem, version) != _flavour_of(
            self.ecosystem, self.current
        )
        return leaves_releases, changes_flavour, not self.keeps_major(version), self.key_of(version)

    def is_pseudo(self, version: str) -> bool:
        return is_pseudo_version(self.ecosystem, version)

    def in_normal_form(self, version: str) -> str:
        """As the registry would call it: the same fix must not have two names."""
        return str(Version(version)) if self.ecosystem == "PyPI" else version

    def as_written(self, version: str) -> str:
        """Go's versions have a v in go.mod and none in advisories: like the current one."""
        if self.ecosystem != "Go":
            return version
        prefix = "v" if self.current.startswith("v") else ""
        suffix = "+incompatible" if self.current.endswith("+incompatible") else ""
        return f"{prefix}{version.removeprefix('v').removesuffix(suffix)}{suffix}"


def _candidates(package: _Package, published: Published | None) -> list[PublishedVersion]:
    """What is above the current version and not withdrawn."""
    named = dict.fromkeys(map(package.in_normal_form, package.fixes(package.advisories)))
    if published is None:
        found = [PublishedVersion(version) for version in named]
    else:
        listed = [one for one in published.versions if not one.yanked]
        unlisted = [PublishedVersion(version) for version in named if package.is_pseudo(version)]
        found = [*listed, *unlisted]
    return [one for one in found if package.is_above(one.version)]


def _why(package: _Package, chosen: PublishedVersion, published: Published | None) -> str:
    version = package.as_written(chosen.version)
    above = f"above {package.current} that no known advisory affects"
    if published is None:
        first = (
            f"The {package.ecosystem} registry could not be asked: of the versions that the "
            f"advisories call fixed, {version} is the lowest {above}"
        )
    elif package.is_pseudo(chosen.version):
        first = f"{version}, the commit that an advisory calls fixed, is the lowest version {above}"
    else:
        first = f"{version} is the lowest published version {above}"
    if package.keeps_major(chosen.version):
        kept = "it keeps the major version."
    else:
        major = package.major_of(package.current)
        kept = f"no version of major {major} is free of them, so the major version changes."
    return " ".join((f"{first}; {kept}", *_passed_over(package, chosen.version)))


def _passed_over(package: _Package, chosen: str) -> Iterator[str]:
    """Readers of an advisory expect the version it calls fixed: why is it not that one?"""
    lower = [
        (version, hit)
        for version in package.fixes(package.affecting)
        if package.is_above(version)
        and package.key_of(version) < package.key_of(chosen)
        and (hit := package.affected_by(version)) is not None
    ]
    for version, hit in lower[:_MAX_PASSED_OVER]:
        yield f"{package.as_written(version)} is called fixed, but {hit.id} affects it."


def _why_none(
    package: _Package, candidates: Sequence[PublishedVersion], published: Published | None
) -> str:
    if published is None:
        return (
            f"The {package.ecosystem} registry could not be asked, and no version of "
            f"{package.name} above {package.current} that is called fixed is free of advisories."
        )
    if not published.versions and not candidates:
        return f"The {package.ecosystem} registry lists no version of {package.name}."
    if not candidates:
        return f"No version of {package.name} above {package.current} is published."
    prerelease = next(filter(package.is_safe, _sorted(package, candidates)), None)
    if prerelease is not None:
        return (
            f"Of the versions of {package.name} above {package.current} only prereleases such as "
            f"{prerelease.version} are free of known advisories."
        )
    return f"Known advisories affect every version of {package.name} above {package.current}."


def _sorted(package: _Package, candidates: Iterable[PublishedVersion]) -> list[PublishedVersion]:
    return sorted(candidates, key=lambda one: package.key_of(one.version))


def _flavour_of(ecosystem: str, version: str) -> str:
    found = _FLAVOUR.search(version) if ecosystem == "Maven" else None
    return found[1].lower() if found else ""

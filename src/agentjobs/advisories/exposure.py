"""Which dependencies are known to be vulnerable: one finding for each fault, not for each record.

Pure: dependencies and advisories come in, findings go out.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentjobs.advisories.groups import AdvisoryGroup, group_advisories
from agentjobs.advisories.matching import affects, by_package, describe_affected, fixed_versions
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.severity import Severity
from agentjobs.inventory.model import Dependency

_MAX_RANGES_LENGTH = 300

Package = tuple[str, str, str]


class AdvisorySummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What people want to know of an advisory about one package; `ranges` is for reading."""

    id: str
    aliases: tuple[str, ...]
    severity: str
    score: float | None
    ranges: str
    summary: str
    url: str
    fixed: tuple[str, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A package in a version that a manifest leads to, and one fault that it has."""

    manifest: str
    ecosystem: str
    name: str
    version: str
    direct: bool
    advisory_id: str
    advisories: tuple[AdvisorySummary, ...]
    severity: str
    score: float | None
    severity_source: str
    summary: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return (self.manifest, self.ecosystem, self.name, self.version, self.advisory_id)

    @property
    def package(self) -> Package:
        return (self.ecosystem, self.name, self.version)


def match_dependencies(
    dependencies: Iterable[Dependency], advisories: Sequence[Advisory]
) -> list[Finding]:
    """`advisories` also has those about the same faults, so that each is rated and named."""
    dependencies = list(dependencies)
    about = by_package(advisories, {(one.ecosystem, one.name) for one in dependencies})
    by_shared_name = _by_shared_name(advisories)
    groups: dict[Package, list[_Fault]] = {}
    found: dict[tuple[str, ...], Finding] = {}
    for one in dependencies:
        known = about.get((one.ecosystem, one.name))
        if known is None or one.version is None:
            continue
        package = (one.ecosystem, one.name, one.version)
        if package not in groups:
            groups[package] = _faults(package, known, by_shared_name)
        for fault in groups[package]:
            finding = _finding(one, one.version, fault)
            # The same package may be asked for twice in one manifest; once directly is direct.
            if finding.direct or finding.key not in found:
                found[finding.key] = finding
    return list(found.values())


class _Fault(msgspec.Struct, frozen=True):
    group: AdvisoryGroup
    advisories: tuple[AdvisorySummary, ...]


def _faults(
    package: Package, known: Sequence[Advisory], by_shared_name: Mapping[str, list[Advisory]]
) -> list[_Fault]:
    ecosystem, name, version = package
    hits = [one for one in known if affects(one, ecosystem, name, version)]
    if not hits:
        return []
    return [
        _Fault(group, tuple(_described(one, group.severity, package) for one in group.members))
        for group in group_advisories(hits, _relatives(hits, by_shared_name))
    ]


def _finding(dependency: Dependency, version: str, fault: _Fault) -> Finding:
    group = fault.group
    return Finding(
        manifest=dependency.manifest,
        ecosystem=dependency.ecosystem,
        name=dependency.name,
        version=version,
        direct=dependency.direct,
        advisory_id=group.id,
        advisories=fault.advisories,
        severity=group.severity.level,
        score=group.severity.score,
        severity_source=group.severity.source,
        summary=group.summary,
    )


def _described(advisory: Advisory, severity: Severity, package: Package) -> AdvisorySummary:
    """`severity` is that of the fault, whichever record of it rates it."""
    ecosystem, name, _ = package
    return AdvisorySummary(
        id=advisory.id,
        aliases=advisory.aliases,
        severity=severity.level,
        score=severity.score,
        ranges=describe_affected(advisory, ecosystem, name, _MAX_RANGES_LENGTH),
        summary=advisory.summary,
        url=advisory.url,
        fixed=fixed_versions(advisory, ecosystem, name),
    )


def _by_shared_name(advisories: Iterable[Advisory]) -> Mapping[str, list[Advisory]]:
    first: dict[str, Advisory] = {}
    shared: dict[str, list[Advisory]] = {}
    for advisory in advisories:
        # Not `names`: of thousands of records the sets alone would take as long as all the rest.
        for name in (advisory.id, *advisory.aliases):
            other = first.setdefault(name, advisory)
            if other is not advisory:
                shared.setdefault(name, [other]).append(advisory)
    return shared


def _relatives(
    advisories: Iterable[Advisory], by_shared_name: Mapping[str, list[Advisory]]
) -> list[Advisory]:
    """All that are about the same faults, also through a third."""
    found = {one.id: one for one in advisories}
    waiting = list(found.values())
    while waiting:
        one = waiting.pop()
        for name in (one.id, *one.aliases):
            for other in by_shared_name.get(name, ()):
                if other.id not in found:
                    found[other.id] = other
                    waiting.append(other)
    return list(found.values())

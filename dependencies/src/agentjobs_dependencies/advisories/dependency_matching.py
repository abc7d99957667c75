"""Matches dependencies with advisories: one finding per vulnerability, not per record. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentjobs_dependencies.advisories.groups import AdvisoryGroup, group_advisories
from agentjobs_dependencies.advisories.matching import (
    affects,
    by_package,
    describe_affected,
    fixed_versions,
)
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.severity import Severity
from agentjobs_dependencies.model import Dependency, Imported

_MAX_RANGES_LENGTH = 300

Package = tuple[str, str, str]


class AdvisorySummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An advisory about one package, as shown to people; `ranges` is text."""

    id: str
    aliases: tuple[str, ...]
    severity: str
    score: float | None
    ranges: str
    summary: str
    url: str
    fixed: tuple[str, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A vulnerability of one version of a package that a manifest depends on."""

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
    fixture: bool = False
    imported: Imported = "unknown"
    managed_by: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return (self.manifest, self.ecosystem, self.name, self.version, self.advisory_id)

    @property
    def package(self) -> Package:
        return (self.ecosystem, self.name, self.version)

    def with_fix(self, fix_version: str | None, fix_reason: str) -> "FindingWithFix":
        fields = {name: getattr(self, name) for name in Finding.__struct_fields__}
        return FindingWithFix(**fields, fix_version=fix_version, fix_reason=fix_reason)


class FindingWithFix(Finding, frozen=True, kw_only=True):
    """`fix_version` resolves all findings of the package in this version; if it is None,
    `fix_reason` says why."""

    fix_version: str | None
    fix_reason: str

    @property
    def aliases(self) -> tuple[str, ...]:
        names = {name for record in self.advisories for name in (record.id, *record.aliases)}
        return tuple(sorted(names - {self.advisory_id}))


def match_dependencies(
    dependencies: Iterable[Dependency], advisories: Sequence[Advisory]
) -> list[Finding]:
    """`advisories` also has related records, which may have the severity or other names."""
    dependencies = list(dependencies)
    known = by_package(advisories, {(package.ecosystem, package.name) for package in dependencies})
    by_shared_name = _by_shared_name(advisories)
    matches: dict[Package, list[_Match]] = {}
    findings: dict[tuple[str, ...], Finding] = {}
    for dependency in dependencies:
        candidates = known.get((dependency.ecosystem, dependency.name))
        if candidates is None or dependency.version is None:
            continue
        package = (dependency.ecosystem, dependency.name, dependency.version)
        if package not in matches:
            matches[package] = _match(package, candidates, by_shared_name)
        for match in matches[package]:
            finding = _finding(dependency, dependency.version, match)
            # A manifest may have the same package twice; it is direct if either is.
            if finding.direct or finding.key not in findings:
                findings[finding.key] = finding
    return list(findings.values())


class _Match(msgspec.Struct, frozen=True):
    group: AdvisoryGroup
    advisories: tuple[AdvisorySummary, ...]


def _match(
    package: Package, candidates: Sequence[Advisory], by_shared_name: Mapping[str, list[Advisory]]
) -> list[_Match]:
    ecosystem, name, version = package
    hits = [advisory for advisory in candidates if affects(advisory, ecosystem, name, version)]
    if not hits:
        return []
    return [
        _Match(
            group, tuple(_summarize(member, group.severity, package) for member in group.members)
        )
        for group in group_advisories(hits, _relatives(hits, by_shared_name))
    ]


def _finding(dependency: Dependency, version: str, match: _Match) -> Finding:
    group = match.group
    return Finding(
        manifest=dependency.manifest,
        ecosystem=dependency.ecosystem,
        name=dependency.name,
        version=version,
        direct=dependency.direct,
        advisory_id=group.id,
        advisories=match.advisories,
        severity=group.severity.level,
        score=group.severity.score,
        severity_source=group.severity.source,
        summary=group.summary,
        fixture=dependency.fixture,
        imported=dependency.imported,
        managed_by=dependency.managed_by,
    )


def _summarize(advisory: Advisory, severity: Severity, package: Package) -> AdvisorySummary:
    """`severity` is that of the group, whichever record has it."""
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
        # Not `names`: building sets for thousands of records would double the time.
        for name in (advisory.id, *advisory.aliases):
            other = first.setdefault(name, advisory)
            if other is not advisory:
                shared.setdefault(name, [other]).append(advisory)
    return shared


def _relatives(
    advisories: Iterable[Advisory], by_shared_name: Mapping[str, list[Advisory]]
) -> list[Advisory]:
    """All records connected by shared names, directly or indirectly."""
    related = {advisory.id: advisory for advisory in advisories}
    queue = list(related.values())
    while queue:
        advisory = queue.pop()
        for name in (advisory.id, *advisory.aliases):
            for other in by_shared_name.get(name, ()):
                if other.id not in related:
                    related[other.id] = other
                    queue.append(other)
    return list(related.values())

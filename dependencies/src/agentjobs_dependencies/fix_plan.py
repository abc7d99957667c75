"""Which fixes `fixes` should make, and the vulnerabilities of a repository that they are for."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from agentjobs_dependencies.advisories import model
from agentjobs_dependencies.advisories.dependency_matching import (
    Finding,
    Package,
)
from agentjobs_dependencies.fixes.fix import can_fix
from agentjobs_dependencies.fixes.model import Advisory, Fix
from agentjobs_dependencies.model import Dependency, IndexWarning
from agentjobs_dependencies.version_choice import Choice

# The agent takes the first version that suits the project.
MAX_CANDIDATES = 8

# A manifest, an ecosystem, a package: what one fix is about.
Location = tuple[str, str, str]


class Exposure(msgspec.Struct, frozen=True, dict=True):
    dependencies: tuple[Dependency, ...]
    advisories: tuple[model.Advisory, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[IndexWarning, ...] = ()
    installed_together: tuple[tuple[str, ...], ...] = ()

    def installed_with(self, manifest: str) -> set[str]:
        """The manifest itself, and all that are installed or resolved together with it."""
        groups = (group for group in self.installed_together if manifest in group)
        return {manifest}.union(*groups)

    def at(self, location: Location) -> list[Dependency]:
        return self._by_location.get(location, [])

    @cached_property
    def _by_location(self) -> dict[Location, list[Dependency]]:
        by_location: dict[Location, list[Dependency]] = {}
        for dependency in self.dependencies:
            by_location.setdefault(locate_package(dependency), []).append(dependency)
        return by_location


def locate_package(item: Dependency | Finding) -> Location:
    return item.manifest, item.ecosystem, item.name


class FixPlan(msgspec.Struct, frozen=True):
    """`not_fixed` has a sentence for each vulnerable package that gets no fix."""

    fixes: tuple[Fix, ...]
    not_fixed: tuple[str, ...]


def plan_fixes(
    exposure: Exposure,
    findings: Iterable[Finding],
    choices: Mapping[Package, Choice],
    registries: Mapping[str, str],
) -> FixPlan:
    """`registries` are addresses by ecosystem."""
    by_package: dict[tuple[str, Package], list[Finding]] = {}
    for finding in findings:
        by_package.setdefault((finding.manifest, finding.package), []).append(finding)
    fixes, not_fixed = [], []
    for (_, package), same in by_package.items():
        choice = choices[package]
        reason = _reason_not_to_fix(same[0], choice)
        if reason is None:
            fixes.append(_fix(exposure, same, choice, registries[package[0]]))
        else:
            not_fixed.append(_describe_unfixed(same, reason))
    return FixPlan(tuple(fixes), tuple(not_fixed))


def job_entries(fixes: Iterable[Fix]) -> dict[str, Any]:
    """The entries of the job file that `fixes` reads; keys may be added, never removed."""
    entries: list[dict[str, Any]] = []
    groups: dict[tuple[str, ...], None] = {}
    for fix in fixes:
        entry = msgspec.to_builtins(fix)
        entry |= {"from": entry.pop("old"), "to": entry.pop("new")}
        groups |= dict.fromkeys(entry.pop("installed_together"))
        entries.append(entry)
    return {"fixes": entries, "installed_together": list(groups)}


def _reason_not_to_fix(finding: Finding, choice: Choice) -> str | None:
    if choice.version is None:
        return choice.reason
    if not can_fix(finding.ecosystem, finding.manifest):
        return (
            f"{choice.version} would fix it, but this agent cannot edit {finding.manifest}: "
            "change it by hand."
        )
    return None


def _describe_unfixed(findings: list[Finding], reason: str) -> str:
    first = findings[0]
    advisories = ", ".join(finding.advisory_id for finding in findings)
    return (
        f"{first.name} {first.version} in {first.manifest} is vulnerable ({advisories}). {reason}"
    )


def _fix(exposure: Exposure, same: list[Finding], choice: Choice, registry: str) -> Fix:
    first = same[0]
    assert choice.version is not None, "the caller has checked"
    dependencies = [
        dependency
        for dependency in exposure.at(locate_package(first))
        if dependency.version == first.version
    ]
    return Fix(
        ecosystem=first.ecosystem,
        manifest=first.manifest,
        package=first.name,
        old=first.version,
        new=choice.version,
        direct=any(dependency.direct for dependency in dependencies),
        parents=next((dependency.parents for dependency in dependencies if dependency.parents), ()),
        hashes=choice.hashes,
        candidates=choice.candidates,
        registry=registry,
        advisories=tuple(_advisory(finding) for finding in same),
        why=choice.reason,
        managed_by=first.managed_by,
        installed_together=tuple(
            group for group in exposure.installed_together if first.manifest in group
        ),
    )


def _advisory(finding: Finding) -> Advisory:
    """One advisory per vulnerability, with all its identifiers and the severity of the group."""
    first = next(advisory for advisory in finding.advisories if advisory.id == finding.advisory_id)
    names = {name for advisory in finding.advisories for name in (advisory.id, *advisory.aliases)}
    return Advisory(
        id=first.id,
        aliases=tuple(sorted(names - {first.id})),
        severity=finding.severity,
        score=finding.score,
        ranges=first.ranges,
        summary=finding.summary or first.summary,
        url=first.url,
        fixed=first.fixed,
    )

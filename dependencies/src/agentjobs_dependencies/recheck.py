"""Checks that a proposed commit fixes what it was made to fix, from its own files only."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from agentjobs_dependencies.advisories.dependency_matching import Finding
from agentjobs_dependencies.fix_plan import Exposure, Location, locate_package
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.versions.order import version_key

_NUMBER = re.compile(r"\d+")


def fixes_left_out(fixes: Sequence[Fix], before: Exposure, after: Exposure) -> list[Fix]:
    """The commit may leave out a fix if it has another one, and if it fixes the package in no other
    file that is installed together with this one."""
    made: list[Fix] = []
    left: list[Fix] = []
    for fix in fixes:
        is_left = any(dependency.version == fix.old for dependency in after.at(fix.location))
        (left if is_left else made).append(fix)
    return [fix for fix in left if made and not _is_partial(fix, made, before)]


def _is_partial(fix: Fix, made: Iterable[Fix], before: Exposure) -> bool:
    together = before.installed_with(fix.manifest) - {fix.manifest}
    return any(
        (other.ecosystem, other.package) == (fix.ecosystem, fix.package)
        and other.manifest in together
        for other in made
    )


def faults_in(fixes: Iterable[Fix], before: Exposure, after: Exposure) -> Iterator[str]:
    fixed: dict[Location, list[Fix]] = {}
    for fix in fixes:
        fixed.setdefault(fix.location, []).append(fix)
        yield from _unreadable(fix, before, after)
    findings: dict[Location, list[Finding]] = {}
    for finding in after.findings:
        findings.setdefault(locate_package(finding), []).append(finding)
    for location, same in fixed.items():
        yield from _downgrades(same, before.at(location), after.at(location))
        yield from _still_vulnerable(
            findings.get(location, []),
            {fix.old for fix in same},
            before.at(location),
            after.at(location),
        )
    yield from _describe_new_exposure(fixed.keys(), before, after)


def _still_vulnerable(
    findings: list[Finding], fixed: set[str], before: list[Dependency], after: list[Dependency]
) -> Iterator[str]:
    """Other versions of the package have their own fixes, unless only vulnerable ones are left."""
    others = {dependency.version for dependency in before} - fixed
    vulnerable = {finding.version for finding in findings}
    is_all = {dependency.version for dependency in after} <= vulnerable
    for finding in findings:
        if is_all or finding.version not in others:
            yield f"{_name(finding)} is still vulnerable ({finding.advisory_id})."


def _unreadable(fix: Fix, before: Exposure, after: Exposure) -> Iterator[str]:
    """A manifest that no longer names the package proves nothing."""
    known = {
        _without_numbers(warning.reason)
        for warning in before.warnings
        if warning.path == fix.manifest
    }
    for warning in after.warnings:
        if warning.path == fix.manifest and _without_numbers(warning.reason) not in known:
            yield f"{fix.manifest} can no longer be read: {warning.reason}"
            return
    # A module whose version is now that of its parent gets it from there.
    places = after.installed_with(fix.manifest) if fix.ecosystem == "Maven" else {fix.manifest}
    named = (after.at((place, fix.ecosystem, fix.package)) for place in places)
    if not any(dependency.version for same in named for dependency in same):
        yield f"{fix.manifest} no longer names a version of {fix.package}."


def _without_numbers(reason: str) -> str:
    """An edit moves lines, so the same warning may name another line number."""
    return _NUMBER.sub("", reason)


def _downgrades(
    fixes: list[Fix], before: list[Dependency], after: list[Dependency]
) -> Iterator[str]:
    """A file may have several versions of the package, and a fix for each."""
    known = {dependency.version for dependency in before}
    versions = {dependency.version for dependency in after if dependency.version}
    for version in sorted(versions - known):
        if not any(_is_at_least(version, fix) for fix in fixes):
            yield _describe_downgrade(fixes[0], version)
    for fix in fixes:
        if versions and not any(_is_at_least(version, fix) for version in versions):
            yield _describe_downgrade(fix, max(versions))
    if None not in known and any(dependency.version is None for dependency in after):
        yield _describe_downgrade(fixes[0], "no fixed version")


def _is_at_least(version: str, fix: Fix) -> bool:
    new, old = version_key(fix.ecosystem, version), version_key(fix.ecosystem, fix.old)
    return new is not None and old is not None and bool(new >= old)


def _describe_downgrade(fix: Fix, version: str) -> str:
    return f"{fix.package} went from {fix.old} to {version} in {fix.manifest}."


def _describe_new_exposure(
    fixed: Collection[Location], before: Exposure, after: Exposure
) -> Iterator[str]:
    """An upgrade may bring in dependencies that are vulnerable themselves, in any manifest."""
    known = {(locate_package(finding), finding.advisory_id) for finding in before.findings}
    # A version that was already there was not introduced, even if its advisory is new.
    present = {
        (locate_package(dependency), dependency.version) for dependency in before.dependencies
    }
    for finding in after.findings:
        location = locate_package(finding)
        is_known = (location, finding.advisory_id) in known
        if location not in fixed and not is_known and (location, finding.version) not in present:
            yield f"The change introduces {_name(finding)}, affected by {finding.advisory_id}."


def _name(finding: Finding) -> str:
    return f"{finding.name} {finding.version} in {finding.manifest}"

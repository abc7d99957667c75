"""Which fixes the agent `cve-fixer` makes: the service chooses versions, the agent only edits."""

from collections.abc import Iterable, Mapping

import msgspec

from agentjobs.jobs.auto_trigger_rows import FixKey
from agentjobs.publishing.cve_fix.exposure import Exposure, Location, locate_package
from agentjobs_dependencies.advisories.dependency_matching import AdvisorySummary, Finding, Package
from agentjobs_dependencies.advisories.severity import is_at_least
from agentjobs_dependencies.fixes.fix import can_fix
from agentjobs_dependencies.version_choice import Candidate, Choice
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import JobFailed

_LOWEST_SEVERITY = "low"
_MAX_REASONS = 10


class Fix(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    """One entry of `fixes` in the job file; keys may be added, never removed."""

    ecosystem: str
    manifest: str
    package: str
    old: str
    new: str
    direct: bool
    parents: tuple[str, ...]
    hashes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    registry: str
    advisories: tuple[AdvisorySummary, ...]
    why: str
    managed_by: str = ""

    @property
    def location(self) -> Location:
        return self.manifest, self.ecosystem, self.package

    @property
    def key(self) -> FixKey:
        return *self.location, self.new


class FixPlan(msgspec.Struct, frozen=True):
    """`not_fixed` has a sentence for each vulnerable package that gets no fix."""

    fixes: tuple[Fix, ...]
    not_fixed: tuple[str, ...]


def findings_to_fix(job: ClaimedJob, exposure: Exposure, unrated: str) -> list[Finding]:
    """All findings of the packages in the job's files, and in those installed together with them:
    the same package at two versions could not be installed.

    The job's cause names them, or they have a finding at or above the threshold; those of fixtures
    count only on request. `unrated` is the level that counts for an unknown severity. Raises
    JobFailed when there is none.
    """
    if job.cause is not None:
        locations = {(fix.manifest, fix.ecosystem, fix.package) for fix in job.cause.all_fixes}
    else:
        threshold = read_threshold(job)
        severe = [
            finding for finding in exposure.findings if _is_severe(finding, threshold, unrated)
        ]
        has_fixtures = job.config_override.get("fixtures") is True
        locations = {
            locate_package(finding) for finding in severe if has_fixtures or not finding.fixture
        }
        if severe and not locations:
            raise JobFailed("no_changes", _only_fixtures(severe))
    locations = {
        (together, ecosystem, package)
        for manifest, ecosystem, package in locations
        for together in exposure.installed_with(manifest)
    }
    findings = [finding for finding in exposure.findings if locate_package(finding) in locations]
    if not findings:
        raise JobFailed("no_changes", _nothing_to_fix(job))
    return findings


def findings_of_job(
    job: ClaimedJob, findings: list[Finding], choices: Mapping[Package, Choice]
) -> list[Finding]:
    """The findings whose fixes caused this job; other fixes of the same file have their own jobs.

    If none is left in a file, the recommended version has changed since, and the job uses the new
    one.
    """
    if job.cause is None:
        return findings
    versions: dict[Location, set[str]] = {}
    for fix in job.cause.all_fixes:
        location = (fix.manifest, fix.ecosystem, fix.package)
        versions.setdefault(location, set()).add(fix.fix_version)
    by_location: dict[Location, list[Finding]] = {}
    for finding in findings:
        by_location.setdefault(locate_package(finding), []).append(finding)
    chosen = []
    for location, same in by_location.items():
        wanted = versions.get(location, set())
        chosen += [f for f in same if choices[f.package].version in wanted] or same
    return chosen


def read_threshold(job: ClaimedJob) -> str:
    severity = job.config_override.get("auto_trigger_on_cve_severity") or _LOWEST_SEVERITY
    name = str(severity).lower()
    return "medium" if name == "moderate" else name


def plan_fixes(
    exposure: Exposure,
    findings: Iterable[Finding],
    choices: Mapping[Package, Choice],
    registries: Mapping[str, str],
) -> FixPlan:
    """`registries` are addresses by ecosystem. Raises JobFailed when nothing can be fixed."""
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
    if not fixes:
        raise JobFailed("no_changes", " ".join(not_fixed[:_MAX_REASONS]))
    return FixPlan(tuple(fixes), tuple(not_fixed))


def _is_severe(finding: Finding, threshold: str, unrated: str) -> bool:
    return threshold != "none" and is_at_least(finding.severity, threshold, unrated)


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
        parents=next((each.parents for each in dependencies if each.parents), ()),
        hashes=choice.hashes,
        candidates=choice.candidates,
        registry=registry,
        advisories=tuple(_advisory(finding) for finding in same),
        why=choice.reason,
        managed_by=first.managed_by,
    )


def _advisory(finding: Finding) -> AdvisorySummary:
    """One advisory per vulnerability, with all its identifiers and the severity of the group."""
    first = next(each for each in finding.advisories if each.id == finding.advisory_id)
    names = {name for each in finding.advisories for name in (each.id, *each.aliases)}
    return msgspec.structs.replace(
        first,
        aliases=tuple(sorted(names - {first.id})),
        severity=finding.severity,
        score=finding.score,
        summary=finding.summary or first.summary,
    )


def _only_fixtures(findings: list[Finding]) -> str:
    return (
        f"Only files of tests and examples have vulnerable packages ({findings[0].manifest});"
        " set config_override.fixtures to true to fix them."
    )


def _nothing_to_fix(job: ClaimedJob) -> str:
    if job.cause is not None:
        package = f"{job.cause.package} in {job.cause.manifest}"
        more = len(job.cause.all_fixes) - 1
        others = f" and {more} more" if more else ""
        is_fixed = "are" if more else "is"
        return f"{package}{others} {is_fixed} no longer vulnerable on {job.base_branch}."
    if read_threshold(job) == "none":
        return (
            "config_override.auto_trigger_on_cve_severity is none, so there is nothing to fix; "
            "omit it, or set a severity."
        )
    return (
        f"No dependency on {job.base_branch} has a known vulnerability of severity "
        f"{read_threshold(job)} or above. `agentjobs advisories status` shows how recent the "
        "advisories are."
    )

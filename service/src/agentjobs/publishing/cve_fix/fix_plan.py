"""Which fixes the agent `cve-fixer` makes: the service chooses versions, the agent only edits."""

from collections.abc import Mapping

from agentjobs_dependencies.advisories.dependency_matching import Finding, Package
from agentjobs_dependencies.advisories.severity import is_at_least
from agentjobs_dependencies.fix_plan import Exposure, FixPlan, Location, locate_package
from agentjobs_dependencies.version_choice import Choice
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import JobFailed

_LOWEST_SEVERITY = "low"
_MAX_REASONS = 10


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


def require_fixes(plan: FixPlan) -> FixPlan:
    """Raises JobFailed when nothing can be fixed."""
    if not plan.fixes:
        raise JobFailed("no_changes", " ".join(plan.not_fixed[:_MAX_REASONS]))
    return plan


def _is_severe(finding: Finding, threshold: str, unrated: str) -> bool:
    return threshold != "none" and is_at_least(finding.severity, threshold, unrated)


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

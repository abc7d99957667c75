"""What the agent `cve-fixer` is asked to do: the service chooses versions, the agent only edits."""

from collections.abc import Iterable, Mapping

import msgspec

from agentjobs.advisories.exposure import Finding, FoundAdvisory, Package
from agentjobs.advisories.severity import at_least
from agentjobs.advisories.version_choice import Choice
from agentjobs.agents.fixable import can_fix
from agentjobs.jobs.model import Cause
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.exposure import Exposure, Place, place_of
from agentjobs.jobs.run.outcomes import Stopped

_EVERY_RATED_ONE = "low"
_MOST_TOLD = 10


class Fix(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    """One entry of `fixes` in the job file; keys are only ever added."""

    ecosystem: str
    manifest: str
    package: str
    old: str
    new: str
    direct: bool
    parents: tuple[str, ...]
    hashes: tuple[str, ...]
    registry: str
    advisories: tuple[FoundAdvisory, ...]
    why: str

    @property
    def place(self) -> Place:
        return self.manifest, self.ecosystem, self.package


class FixPlan(msgspec.Struct, frozen=True):
    """`left_out` are sentences on what is vulnerable and is not going to be mended."""

    fixes: tuple[Fix, ...]
    left_out: tuple[str, ...]


def wanted_findings(job: ClaimedJob, exposure: Exposure) -> list[Finding]:
    """Those of every package with one that is grave enough; Stopped when there is none."""
    if job.cause is not None:
        cause = job.cause
        places = {(cause.manifest, cause.ecosystem, cause.package)}
    else:
        threshold = threshold_of(job)
        grave = (one for one in exposure.findings if _reaches(one, threshold))
        places = {place_of(one) for one in grave}
    found = [one for one in exposure.findings if place_of(one) in places]
    if not found:
        raise Stopped("no_changes", _nothing_wanted(job))
    return found


def of_this_job(
    job: ClaimedJob, findings: list[Finding], choices: Mapping[Package, Choice]
) -> list[Finding]:
    """A version of the package that goes to another one than the cause says has a job of its own;
    but if all do, the advice changed since, and this job follows it."""
    if job.cause is None:
        return findings
    wanted = job.cause.fix_version
    return [one for one in findings if choices[one.package].version == wanted] or findings


def threshold_of(job: ClaimedJob) -> str:
    asked = str(job.config_override.get("auto_trigger_on_cve_severity") or _EVERY_RATED_ONE).lower()
    return "medium" if asked == "moderate" else asked


def make_plan(
    exposure: Exposure,
    findings: Iterable[Finding],
    choices: Mapping[Package, Choice],
    registries: Mapping[str, str],
) -> FixPlan:
    """`registries` are addresses by ecosystem. Stopped when nothing of it can be mended."""
    by_package: dict[tuple[str, Package], list[Finding]] = {}
    for finding in findings:
        by_package.setdefault((finding.manifest, finding.package), []).append(finding)
    fixes, left_out = [], []
    for (_, package), same in by_package.items():
        choice = choices[package]
        reason = _why_not(same[0], choice)
        if reason is None:
            fixes.append(_fix(exposure, same, choice, registries[package[0]]))
        else:
            left_out.append(_told(same, reason))
    if not fixes:
        raise Stopped("no_changes", " ".join(left_out[:_MOST_TOLD]))
    return FixPlan(tuple(fixes), tuple(left_out))


def _reaches(finding: Finding, threshold: str) -> bool:
    return threshold != "none" and at_least(finding.severity, threshold)


def _why_not(finding: Finding, choice: Choice) -> str | None:
    if choice.version is None:
        return choice.reason
    if not can_fix(finding.ecosystem, finding.manifest):
        return (
            f"{choice.version} would end it, but {finding.manifest} is a file that this agent "
            "cannot edit yet: change it by hand."
        )
    return None


def _told(findings: list[Finding], reason: str) -> str:
    one = findings[0]
    names = ", ".join(finding.advisory_id for finding in findings)
    return f"{one.name} {one.version} in {one.manifest} is vulnerable ({names}). {reason}"


def _fix(exposure: Exposure, same: list[Finding], choice: Choice, registry: str) -> Fix:
    one = same[0]
    assert choice.version is not None, "the caller has looked"
    asked = [found for found in exposure.at(place_of(one)) if found.version == one.version]
    return Fix(
        ecosystem=one.ecosystem,
        manifest=one.manifest,
        package=one.name,
        old=one.version,
        new=choice.version,
        direct=any(found.direct for found in asked),
        parents=next((found.parents for found in asked if found.parents), ()),
        hashes=choice.hashes,
        registry=registry,
        advisories=tuple(_advisory(finding) for finding in same),
        why=choice.reason,
    )


def _advisory(finding: Finding) -> FoundAdvisory:
    """One for each fault, with all its names and the severity of the whole group."""
    first = next(one for one in finding.advisories if one.id == finding.advisory_id)
    names = {name for one in finding.advisories for name in (one.id, *one.aliases)}
    return msgspec.structs.replace(
        first,
        aliases=tuple(sorted(names - {first.id})),
        severity=finding.severity,
        score=finding.score,
        summary=finding.summary or first.summary,
    )


def _nothing_wanted(job: ClaimedJob) -> str:
    if job.cause is not None:
        return f"{_named(job.cause)} is not vulnerable on {job.base_branch} any more."
    if threshold_of(job) == "none":
        return (
            "config_override.auto_trigger_on_cve_severity is none, so nothing is to be mended; "
            "leave it out, or name a severity."
        )
    return (
        f"No dependency on {job.base_branch} has a known vulnerability of severity "
        f"{threshold_of(job)} or above. `agentjobs advisories status` tells how fresh that is."
    )


def _named(cause: Cause) -> str:
    return f"{cause.package} in {cause.manifest}"

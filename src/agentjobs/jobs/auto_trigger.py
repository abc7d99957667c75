"""Findings that nobody has to ask about: each fix that reaches the threshold gets one job, ever.

Reconciles what is stored; running it again, at once or after a crash, changes nothing.
"""

import logging
from collections.abc import Iterable

import msgspec

from agentjobs.advisories.findings import FindingView, findings_of_repo
from agentjobs.advisories.severity import at_least
from agentjobs.agents.fixable import CVE_FIXER, can_fix
from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.create import check_acceptable, insert_job, surroundings
from agentjobs.jobs.model import Cause, CausingAdvisory, CreateJobRequest
from agentjobs.organizations.key_ring import Caller
from agentjobs.problems import Problem
from agentjobs.repos.thresholds import Threshold, thresholds_in
from agentjobs.store.database import Row, Transaction

_log = logging.getLogger(__name__)


class Trigger(msgspec.Struct, frozen=True):
    """A fix to propose: everything in its key is one pull request."""

    ecosystem: str
    package: str
    manifest: str
    fix_version: str
    findings: tuple[FindingView, ...]

    @property
    def cause(self) -> Cause:
        return Cause(
            ecosystem=self.ecosystem,
            package=self.package,
            versions=tuple(sorted({finding.version for finding in self.findings})),
            manifest=self.manifest,
            fix_version=self.fix_version,
            advisories=tuple(_advisories(self.findings)),
        )


async def reconcile(context: JobsContext, repo_id: str) -> list[str]:
    """The identifiers of the jobs that were created."""
    repo = await context.db.fetch_one(
        "SELECT r.id, r.full_name, r.index_status, r.disconnected_at, r.configured_trigger,"
        " r.auto_trigger, o.auto_trigger AS organization_trigger, o.id AS organization_id,"
        " o.name AS organization, o.plan FROM repos r"
        " JOIN organizations o ON o.id = r.organization_id WHERE r.id = :repo_id",
        repo_id=repo_id,
    )
    if repo is None or repo["disconnected_at"] is not None:
        return []
    threshold = thresholds_in(repo).effective
    if threshold.is_off:
        return []
    findings = await findings_of_repo(context.db, repo_id)
    return await _trigger_all(context, repo, wanted_triggers(findings, threshold.level), threshold)


def wanted_triggers(findings: Iterable[FindingView], threshold: str) -> list[Trigger]:
    """One for each fix, the worst first. What is below the threshold and has the same fix is
    named by it too."""
    by_fix: dict[tuple[str, str, str, str], list[FindingView]] = {}
    for finding in findings:
        if finding.fix_version is not None and can_fix(finding.ecosystem, finding.manifest):
            key = (finding.ecosystem, finding.name, finding.manifest, finding.fix_version)
            by_fix.setdefault(key, []).append(finding)
    triggers = [
        Trigger(*key, findings=tuple(sorted(same, key=_worst_first)))
        for key, same in by_fix.items()
        if any(at_least(finding.severity, threshold) for finding in same)
    ]
    return sorted(triggers, key=lambda one: (_worst_first(one.findings[0]), one.manifest))


async def _trigger_all(
    context: JobsContext, repo: Row, triggers: list[Trigger], threshold: Threshold
) -> list[str]:
    created = []
    for trigger in triggers:
        try:
            job_id = await context.db.transact(_trigger, context, repo, trigger, threshold)
        except Problem as problem:
            # A full queue, a plan without the agent: it is tried again after the next scan.
            _log.warning("no job for %s: %s", trigger.package, problem.message, extra=_of(repo))
            break
        if job_id is not None:
            created.append(job_id)
            _log.info("%s is vulnerable: job %s", trigger.package, job_id, extra=_of(repo))
    return created


async def _trigger(
    tx: Transaction, context: JobsContext, repo: Row, trigger: Trigger, threshold: Threshold
) -> str | None:
    """None when it was triggered before."""
    job_id = new_id("job")
    fresh = await tx.execute(
        "INSERT INTO auto_triggers (repo_id, manifest, ecosystem, name, fix_version, job_id,"
        " created_at) VALUES (:repo_id, :manifest, :ecosystem, :name, :fix_version, :job_id, :now)"
        " ON CONFLICT DO NOTHING",
        repo_id=repo["id"],
        manifest=trigger.manifest,
        ecosystem=trigger.ecosystem,
        name=trigger.package,
        fix_version=trigger.fix_version,
        job_id=job_id,
        now=now_ms(),
    )
    if not fresh:
        return None
    caller = _caller(repo)
    override = {"auto_trigger_on_cve_severity": threshold.level}
    body = CreateJobRequest(repo["full_name"], CVE_FIXER, None, override)
    found = await surroundings(tx, caller.organization_id, body.repo)
    check_acceptable(context, caller, body, found)
    await insert_job(tx, job_id, caller, repo["id"], body, cause=trigger.cause)
    tx.announce("jobs")
    return job_id


def _caller(repo: Row) -> Caller:
    return Caller(
        organization_id=repo["organization_id"],
        organization=repo["organization"],
        plan=repo["plan"],
        key_id="agentjobs",
        scope="jobs",
        git_write=False,
        name="agentjobs",
    )


def _advisories(findings: Iterable[FindingView]) -> Iterable[CausingAdvisory]:
    """Each group once, also when several versions of the package are affected."""
    seen: set[str] = set()
    for finding in findings:
        if finding.advisory_id not in seen:
            seen.add(finding.advisory_id)
            yield CausingAdvisory(finding.advisory_id, finding.severity, finding.aliases)


def _worst_first(finding: FindingView) -> tuple[float, str, str]:
    return -(finding.score or 0), finding.advisory_id, finding.version


def _of(repo: Row) -> dict[str, dict[str, str]]:
    return {"fields": {"repo_id": repo["id"]}}

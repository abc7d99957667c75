"""Findings that nobody has to ask about: each fix that reaches the threshold gets one job, ever.

Reconciles what is stored; running it again, at once or after a crash, changes nothing.
"""

import logging
from collections.abc import Iterable

import msgspec

from agentjobs.advisories.findings import FindingView, findings_of_repo
from agentjobs.advisories.scans import scan_later
from agentjobs.advisories.severity import at_least, rank_of
from agentjobs.agents.fixable import CVE_FIXER, can_fix
from agentjobs.identifiers import new_id
from agentjobs.jobs.auto_trigger_rows import FixKey, insert_trigger
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.create import check_acceptable, insert_job, surroundings
from agentjobs.jobs.model import Cause, CausingAdvisory, ConfigOverride, CreateJobRequest
from agentjobs.organizations.authentication import Caller
from agentjobs.problems import Problem
from agentjobs.repos.thresholds import Threshold, thresholds_from_row
from agentjobs.store.database import Database, Row, Transaction

_log = logging.getLogger(__name__)


class Trigger(msgspec.Struct, frozen=True):
    """A fix to propose: everything in its key is one pull request."""

    ecosystem: str
    package: str
    manifest: str
    fix_version: str
    findings: tuple[FindingView, ...]

    @property
    def key(self) -> FixKey:
        return self.manifest, self.ecosystem, self.package, self.fix_version

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
    threshold = thresholds_from_row(repo).effective
    if threshold.is_off:
        return []
    findings = await findings_of_repo(context.db, repo_id)
    known = await _triggered_before(context.db, repo_id)
    wanted = wanted_triggers(findings, threshold.level)
    fresh = [trigger for trigger in wanted if trigger.key not in known]
    return await _trigger_all(context, repo, fresh, threshold)


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
            # A plan without the agent: it is tried again after the next scan.
            _log.warning("no job for %s: %s", trigger.package, problem.message, extra=_of(repo))
            if problem.code == "queue_full":
                await scan_later(context.db, repo["id"])
            break
        if job_id is not None:
            created.append(job_id)
            _log.info("%s is vulnerable: job %s", trigger.package, job_id, extra=_of(repo))
    return created


async def _triggered_before(db: Database, repo_id: str) -> set[FixKey]:
    """So that what is known does not cost a transaction each, after every scan."""
    rows = await db.fetch_all(
        "SELECT manifest, ecosystem, name, fix_version FROM auto_triggers WHERE repo_id = :repo_id",
        repo_id=repo_id,
    )
    return {(row["manifest"], row["ecosystem"], row["name"], row["fix_version"]) for row in rows}


async def _trigger(
    tx: Transaction, context: JobsContext, repo: Row, trigger: Trigger, threshold: Threshold
) -> str | None:
    """None when it was triggered before."""
    job_id = new_id("job")
    if not await insert_trigger(tx, repo["id"], job_id, trigger.key):
        return None
    caller = _caller(repo)
    override: ConfigOverride = {"auto_trigger_on_cve_severity": threshold.level}
    body = CreateJobRequest(repo["full_name"], CVE_FIXER, None, override)
    found = await surroundings(tx, caller.organization_id, body.repo)
    check_acceptable(context, caller, body, found)
    _leave_room(context, found)
    await insert_job(tx, job_id, caller, repo["id"], body, cause=trigger.cause)
    tx.announce("jobs")
    return job_id


def _leave_room(context: JobsContext, found: Row) -> None:
    """One old lock file may be worth a thousand jobs; people want to get theirs in as well."""
    most = max(1, context.settings.queue_limit // 2)
    if found["organization_waiting"] >= most:
        raise Problem("queue_full", f"{most} jobs are queued, and the rest is left to people.")


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


def _worst_first(finding: FindingView) -> tuple[int, float, str, str]:
    # By the word first: not everyone who rates a fault gives it a score.
    rank = -rank_of(finding.severity)
    return rank, -(finding.score or 0), finding.advisory_id, finding.version


def _of(repo: Row) -> dict[str, dict[str, str]]:
    return {"fields": {"repo_id": repo["id"]}}

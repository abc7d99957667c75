"""Creates jobs for vulnerable dependencies: one per fix at or above the threshold, ever.

Idempotent: running it again, at once or after a crash, creates nothing new.
"""

import logging
from collections.abc import Iterable

import msgspec

from agentjobs.advisories.findings import FindingView, findings_of_repo
from agentjobs.advisories.scans import schedule_rescan
from agentjobs.advisories.severity import is_at_least, rank_of
from agentjobs.agents.cve_fixer_support import CVE_FIXER, can_fix
from agentjobs.identifiers import new_id
from agentjobs.jobs.acceptance import Admission, check_acceptable, load_admission
from agentjobs.jobs.auto_trigger_rows import FixKey, insert_trigger
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.model import Cause, CausingAdvisory, ConfigOverride, CreateJobRequest
from agentjobs.jobs.queue.insert import NewJob, insert_job
from agentjobs.organizations.authentication import Caller
from agentjobs.problems import Problem
from agentjobs.repos.thresholds import Threshold, thresholds_from_row
from agentjobs.store.database import Database, Row, Transaction

_log = logging.getLogger(__name__)


class Trigger(msgspec.Struct, frozen=True):
    """A fix to propose. All findings with the same key are one pull request."""

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
    """Return the identifiers of the created jobs."""
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
    triggers = triggers_for(findings, threshold.level, context.settings.unrated_severity)
    new = [trigger for trigger in triggers if trigger.key not in known]
    return await _trigger_all(context, repo, new, threshold)


def triggers_for(findings: Iterable[FindingView], threshold: str, unrated: str) -> list[Trigger]:
    """One per fix, the most severe first, with all its findings; at least one of them reaches
    the threshold. `unrated` is the level that counts for an unknown severity."""
    by_fix: dict[tuple[str, str, str, str], list[FindingView]] = {}
    for finding in findings:
        if finding.fix_version is not None and can_fix(finding.ecosystem, finding.manifest):
            key = (finding.ecosystem, finding.name, finding.manifest, finding.fix_version)
            by_fix.setdefault(key, []).append(finding)
    triggers = [
        Trigger(*key, findings=tuple(sorted(same, key=_most_severe_first)))
        for key, same in by_fix.items()
        if any(is_at_least(finding.severity, threshold, unrated) for finding in same)
    ]
    return sorted(
        triggers, key=lambda trigger: (_most_severe_first(trigger.findings[0]), trigger.manifest)
    )


async def _trigger_all(
    context: JobsContext, repo: Row, triggers: list[Trigger], threshold: Threshold
) -> list[str]:
    created = []
    for trigger in triggers:
        try:
            job_id = await context.db.transact(_trigger, context, repo, trigger, threshold)
        except Problem as problem:
            # For example, a plan without the agent. The next scan tries again.
            fields = _log_fields(repo)
            _log.warning("no job for %s: %s", trigger.package, problem.message, extra=fields)
            if problem.code == "queue_full":
                await schedule_rescan(context.db, repo["id"])
            break
        if job_id is not None:
            created.append(job_id)
            _log.info("created %s to fix %s", job_id, trigger.package, extra=_log_fields(repo))
    return created


async def _triggered_before(db: Database, repo_id: str) -> set[FixKey]:
    """Read in advance, to avoid a transaction for each known fix after every scan."""
    rows = await db.fetch_all(
        "SELECT manifest, ecosystem, name, fix_version FROM auto_triggers WHERE repo_id = :repo_id",
        repo_id=repo_id,
    )
    return {(row["manifest"], row["ecosystem"], row["name"], row["fix_version"]) for row in rows}


async def _trigger(
    tx: Transaction, context: JobsContext, repo: Row, trigger: Trigger, threshold: Threshold
) -> str | None:
    """Return the new job, or None when the fix already has one."""
    job_id = new_id("job")
    if not await insert_trigger(tx, repo["id"], job_id, trigger.key):
        return None
    caller = _caller(repo)
    override: ConfigOverride = {"auto_trigger_on_cve_severity": threshold.level}
    body = CreateJobRequest(repo["full_name"], CVE_FIXER, None, override)
    admission = await load_admission(tx, caller.organization_id, body.repo)
    check_acceptable(context, caller, body, admission)
    _check_reserve(context, admission)
    await insert_job(tx, NewJob(job_id, caller, repo["id"], body, cause=trigger.cause))
    return job_id


def _check_reserve(context: JobsContext, admission: Admission) -> None:
    """An old lock file may cause a thousand jobs; half of the queue is reserved for people."""
    limit = max(1, context.settings.queue_limit // 2)
    if admission.queued_jobs >= limit:
        message = f"{limit} jobs are queued; the rest of the queue is reserved for requests."
        raise Problem("queue_full", message)


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
    """Each advisory once, even when it affects several versions of the package."""
    seen: set[str] = set()
    for finding in findings:
        if finding.advisory_id not in seen:
            seen.add(finding.advisory_id)
            yield CausingAdvisory(finding.advisory_id, finding.severity, finding.aliases)


def _most_severe_first(finding: FindingView) -> tuple[int, float, str, str]:
    # The level before the score: not every advisory has a score.
    rank = -rank_of(finding.severity)
    return rank, -(finding.score or 0), finding.advisory_id, finding.version


def _log_fields(repo: Row) -> dict[str, dict[str, str]]:
    return {"fields": {"repo_id": repo["id"]}}

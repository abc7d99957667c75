"""Creates jobs for vulnerable dependencies at or above the threshold: one per fix, ever, and one
for all files of the repository that have the package.

Idempotent: running it again, at once or after a crash, creates nothing new.
"""

import asyncio
import logging
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from agentjobs.advisories.findings import FindingView, findings_of_repo
from agentjobs.advisories.scans import schedule_rescan
from agentjobs.inventory.index.process import IndexFailure
from agentjobs.jobs.model import ConfigOverride, CreateJobRequest
from agentjobs.jobs.operations.auto_trigger_rows import FixKey, fix_key, insert_triggers
from agentjobs.jobs.operations.open_pulls import (
    PROPOSED_SECONDS,
    OpenPullReader,
    ScannedRepo,
    WantedFix,
)
from agentjobs.jobs.operations.proposed_fixes import load_proposed_fixes, replace_proposed_fixes
from agentjobs.jobs.queue.acceptance import Admission, check_acceptable, load_admission
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.insert import NewJob, insert_job
from agentjobs.organizations.authentication import SERVICE_ID, Caller
from agentjobs.platforms.protocol import PlatformError
from agentjobs.repos.thresholds import Threshold, thresholds_from_row
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_dependencies.advisories.severity import is_at_least, rank_level
from agentjobs_dependencies.fixes.fix import can_fix
from agentjobs_runtime.agents.definitions import CVE_FIXER
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.cause import Cause, CausingAdvisory, CausingFix
from agentjobs_runtime.repo_configuration import DEFAULT_GROUPING, FixGrouping
from agentjobs_runtime.tracing.spans import begin_trace

_log = logging.getLogger(__name__)
# Limits of one job; the next scan creates a job for the others.
_MAX_FIXES = 200
_MAX_ADVISORIES = 100
# The statuses of a job that proposes its fixes itself. While it is queued, another job may.
_PROPOSING = frozenset({"running", "completed"})


class TriggeredFix(msgspec.Struct, frozen=True):
    """The upgrade of a package in one file, and the findings that it resolves, worst first."""

    ecosystem: str
    package: str
    manifest: str
    fix_version: str
    findings: tuple[FindingView, ...]

    @property
    def key(self) -> FixKey:
        return self.manifest, self.ecosystem, self.package, self.fix_version

    @property
    def is_fixture(self) -> bool:
        """Whether the file belongs to tests or examples, which start no job by themselves."""
        return self.findings[0].fixture

    @property
    def rank(self) -> tuple[Any, ...]:
        """The most severe first."""
        return (*_severity_rank(self.findings[0]), self.manifest)

    @property
    def causing_fix(self) -> CausingFix:
        versions = tuple(sorted({finding.version for finding in self.findings}))
        return CausingFix(self.ecosystem, self.package, versions, self.manifest, self.fix_version)


class Trigger(msgspec.Struct, frozen=True):
    """The fixes of one job and pull request, the most severe first."""

    fixes: tuple[TriggeredFix, ...]

    @property
    def package(self) -> str:
        return self.fixes[0].package

    @property
    def cause(self) -> Cause:
        fixes = tuple(fix.causing_fix for fix in self.fixes)
        findings = sorted((f for fix in self.fixes for f in fix.findings), key=_severity_rank)
        return Cause(
            **msgspec.structs.asdict(fixes[0]),
            advisories=tuple(islice(_advisories(findings), _MAX_ADVISORIES)),
            fixes=fixes,
        )

    def without(self, keys: Collection[FixKey]) -> "Trigger | None":
        """At most as many fixes as a job may have; None if nothing is left."""
        fixes = tuple(fix for fix in self.fixes if fix.key not in keys)
        return Trigger(fixes[:_MAX_FIXES]) if fixes else None


_GROUP_KEYS: Mapping[FixGrouping, Callable[[TriggeredFix], tuple[str, ...]]] = {
    "package": lambda fix: (fix.ecosystem, fix.package),
    "directory": lambda fix: (posixpath.dirname(fix.manifest),),
    "ecosystem": lambda fix: (fix.ecosystem,),
    "severity": lambda _: (),
}


async def reconcile(
    context: JobsContext, repo_id: str, open_pulls: OpenPullReader | None = None
) -> list[str]:
    """Return the identifiers of the created jobs. With `open_pulls`, fixes that open pull requests
    have are recorded, and get no job."""
    repo = await context.db.fetch_one(
        "SELECT r.id, r.full_name, r.disconnected_at, i.configured_trigger,"
        " i.configured_grouping, r.default_branch, r.head_commit, r.connection_id, r.external_id,"
        " r.auto_trigger, o.auto_trigger AS organization_trigger, o.id AS organization_id,"
        " o.name AS organization, o.plan FROM repos r"
        " JOIN organizations o ON o.id = r.organization_id"
        " LEFT JOIN repo_index i ON i.repo_id = r.id WHERE r.id = :repo_id",
        repo_id=repo_id,
    )
    if repo is None or repo["disconnected_at"] is not None:
        return []
    fixes = list(fixes_for(await findings_of_repo(context.db, repo_id)))
    jobs = await _triggered_before(context.db, repo_id)
    known = set(jobs)
    if open_pulls is not None:
        # Somebody else may propose what a job failed to propose.
        without_job = [fix for fix in fixes if jobs.get(fix.key) not in _PROPOSING]
        known |= await _proposed(context.db, repo, without_job, open_pulls)
    threshold = thresholds_from_row(repo).effective
    if threshold.is_off:
        return []
    unrated, grouping = context.settings.unrated_severity, repo["configured_grouping"]
    triggers = triggers_for(fixes, threshold.level, unrated, grouping or DEFAULT_GROUPING)
    new = (trigger.without(known) for trigger in triggers)
    return await _trigger_all(context, repo, [finding for finding in new if finding], threshold)


def triggers_for(
    fixes: Iterable[TriggeredFix],
    threshold: str,
    unrated: str,
    grouping: FixGrouping = DEFAULT_GROUPING,
) -> list[Trigger]:
    """One trigger per group, the most severe first, without those of fixtures.

    A group has all fixes of each package that has a severe one in the group. `unrated` is the level
    that counts for an unknown severity.
    """
    by_package: dict[tuple[str, ...], list[TriggeredFix]] = {}
    for fix in (fix for fix in fixes if not fix.is_fixture):
        key = (*_GROUP_KEYS[grouping](fix), fix.ecosystem, fix.package)
        by_package.setdefault(key, []).append(fix)
    groups: dict[tuple[str, ...], list[TriggeredFix]] = {}
    for same in by_package.values():
        if any(_is_severe(fix, threshold, unrated) for fix in same):
            groups.setdefault(_GROUP_KEYS[grouping](same[0]), []).extend(same)
    triggers = (Trigger(tuple(sorted(group, key=_rank))) for group in groups.values())
    return sorted(triggers, key=lambda trigger: trigger.fixes[0].rank)


def _is_severe(fix: TriggeredFix, threshold: str, unrated: str) -> bool:
    return any(
        is_at_least(finding.severity, threshold, unrated)
        for finding in fix.findings
        if finding.decision is None
    )


def _rank(fix: TriggeredFix) -> tuple[Any, ...]:
    return fix.rank


async def _proposed(
    db: Database, repo: Row, fixes: Sequence[TriggeredFix], open_pulls: OpenPullReader
) -> set[FixKey]:
    """The fixes that an open pull request has. If the platform or a pull request cannot be read,
    those of the last time."""
    scanned = ScannedRepo(**{name: repo[name] or "" for name in ScannedRepo.__struct_fields__})
    wanted = [
        WantedFix(fix.key, frozenset(finding.version for finding in fix.findings)) for fix in fixes
    ]
    before = await load_proposed_fixes(db, repo["id"])
    try:
        async with asyncio.timeout(PROPOSED_SECONDS):
            known = {pull.number for pull in before.values()}
            in_pulls = await open_pulls.find_proposed(scanned, wanted, known)
    except (PlatformError, GitError, IndexFailure, OSError) as error:
        _log.warning("open pull requests were not read: %s", error, extra=_log_fields(repo))
        return set(before)
    kept = {key: pull for key, pull in before.items() if pull.number in in_pulls.unread}
    proposed = {**kept, **in_pulls.by_fix}
    if proposed != before:
        await db.transact(replace_proposed_fixes, repo["id"], proposed)
    return set(proposed)


def fixes_for(findings: Iterable[FindingView]) -> Iterator[TriggeredFix]:
    """The fixes that the agent can make, of findings of one repository."""
    by_fix: dict[tuple[str, str, str, str], list[FindingView]] = {}
    for finding in findings:
        if finding.fix_version is not None and can_fix(finding.ecosystem, finding.manifest):
            key = (finding.ecosystem, finding.name, finding.manifest, finding.fix_version)
            by_fix.setdefault(key, []).append(finding)
    for key, same in by_fix.items():
        yield TriggeredFix(*key, findings=tuple(sorted(same, key=_severity_rank)))


async def _trigger_all(
    context: JobsContext, repo: Row, triggers: list[Trigger], threshold: Threshold
) -> list[str]:
    created = []
    for trigger in triggers:
        try:
            job_id = await context.db.transact(
                _trigger, context, repo, trigger, threshold, begin_trace()
            )
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


async def _triggered_before(db: Database, repo_id: str) -> dict[FixKey, str | None]:
    """The status of each fix's job; None if the job was pruned.

    Read in advance, to avoid a transaction for each known fix after every scan.
    """
    rows = await db.fetch_all(
        "SELECT t.manifest, t.ecosystem, t.name, t.fix_version, j.status FROM auto_triggers t"
        " LEFT JOIN jobs j ON j.id = t.job_id WHERE t.repo_id = :repo_id",
        repo_id=repo_id,
    )
    return {fix_key(row): row["status"] for row in rows}


async def _trigger(
    tx: Transaction,
    context: JobsContext,
    repo: Row,
    trigger: Trigger,
    threshold: Threshold,
    traceparent: str | None,
) -> str | None:
    """Return the new job, or None when every fix already has one."""
    job_id = new_id("job")
    keys = {fix.key for fix in trigger.fixes}
    remaining = trigger.without(keys - await insert_triggers(tx, repo["id"], job_id, keys))
    if remaining is None:
        return None
    caller = _caller(repo)
    override: ConfigOverride = {"auto_trigger_on_cve_severity": threshold.level}
    body = CreateJobRequest(repo["full_name"], CVE_FIXER, None, override)
    admission = await load_admission(tx, caller.organization_id, body.repo)
    check_acceptable(context, caller, body, admission)
    _check_reserve(context, admission)
    job = NewJob(job_id, caller, repo["id"], body, cause=remaining.cause, traceparent=traceparent)
    await insert_job(tx, job)
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
        key_id=SERVICE_ID,
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


def _severity_rank(finding: FindingView) -> tuple[int, float, str, str]:
    # The level before the score: not every advisory has a score.
    rank = -rank_level(finding.severity)
    return rank, -(finding.score or 0), finding.advisory_id, finding.version


def _log_fields(repo: Row) -> dict[str, dict[str, str]]:
    return {"fields": {"repo_id": repo["id"]}}

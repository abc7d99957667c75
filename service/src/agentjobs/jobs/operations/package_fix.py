"""Creates the job that a member requests to fix one package of a repository, in all its files.

It is the job that the package's vulnerabilities would create by themselves: it has their cause, and
none of its fixes is proposed twice.
"""

from collections.abc import Sequence

from agentjobs.advisories.findings import FindingView
from agentjobs.advisories.packages import findings_of_package
from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.audit import entry_for_person, write_entry
from agentjobs.jobs.operations.auto_trigger import Trigger, TriggeredFix, fixes_for
from agentjobs.jobs.operations.auto_trigger_rows import FixKey, claim_fixes
from agentjobs.jobs.operations.proposed_fixes import ProposingPull, load_proposed_fixes
from agentjobs.jobs.queue.acceptance import check_acceptable, load_admission
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.insert import NewJob, insert_job
from agentjobs.organizations import audit
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs_runtime.agents.definitions import CVE_FIXER
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.tracing.spans import begin_trace


async def fix_package(context: JobsContext, caller: Caller, finding_id: str) -> str:
    """Return the identifier of the new job. The finding is any of the package's."""
    findings = await findings_of_package(context.db, caller.organization_id, finding_id)
    fixes = list(fixes_for(findings))
    # Fixtures are fixed only if nothing else has the package.
    fixes = [fix for fix in fixes if not fix.is_fixture] or fixes
    if not fixes:
        raise Problem("not_fixable", _why_not(findings))
    first = findings[0]
    proposed = await load_proposed_fixes(context.db, first.repo_id)
    trigger = Trigger(tuple(sorted(fixes, key=lambda fix: fix.rank))).without(proposed.keys())
    if trigger is None:
        raise _proposed_by(proposed, fixes)
    body = CreateJobRequest(first.repo, CVE_FIXER)
    return await _create(context.db, context, caller, body, trigger, begin_trace())


@audit.in_transaction
async def _create(
    tx: Transaction,
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    trigger: Trigger,
    traceparent: str | None,
) -> str:
    job_id = new_id("job")
    admission = await load_admission(tx, caller.organization_id, body.repo)
    repo_id = check_acceptable(context, caller, body, admission)
    fixes = [fix.key for fix in trigger.fixes]
    # Waiting jobs keep theirs.
    others = await claim_fixes(tx, repo_id, job_id, fixes, fixes, ("queued", "running"))
    remaining = trigger.without(others.keys())
    if remaining is None:
        other = next(iter(others.values()))
        raise Problem("fix_active", f"The job {other} already fixes {trigger.package}.")
    job = NewJob(job_id, caller, repo_id, body, cause=remaining.cause, traceparent=traceparent)
    await insert_job(tx, job)
    details = {"repo": body.repo, "agent": CVE_FIXER, "package": trigger.package}
    entry = entry_for_person("job.created", **details)
    await write_entry(tx, caller.organization_id, job_id, entry)
    return job_id


def _proposed_by(proposed: dict[FixKey, ProposingPull], fixes: Sequence[TriggeredFix]) -> Problem:
    pull = proposed[fixes[0].key]
    return Problem(
        "fix_active", f"The pull request {pull.url} already fixes {fixes[0].package}; merge it."
    )


def _why_not(findings: Sequence[FindingView]) -> str:
    fixed = next((finding for finding in findings if finding.fix_version is not None), None)
    if fixed is None:
        return f"No version of {findings[0].name} fixes it: {findings[0].fix_reason}"
    return (
        f"{fixed.name} {fixed.fix_version} would fix it, but the agent cannot edit"
        f" {fixed.manifest}; change it by hand."
    )

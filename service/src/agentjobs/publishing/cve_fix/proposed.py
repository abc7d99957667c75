"""Leaves out fixes that other jobs or open pull requests propose by the time a job starts.

Only for jobs that vulnerabilities created: a person may ask for a second pull request.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs.inventory.index.process import IndexFailure
from agentjobs.jobs.operations.auto_trigger_rows import FixKey, take_over_fixes
from agentjobs.jobs.operations.open_pulls import (
    PROPOSED_SECONDS,
    OpenPullReader,
    ScannedRepo,
    WantedFix,
)
from agentjobs.jobs.operations.proposed_fixes import (
    ProposingPull,
    add_proposed_fixes,
    load_proposed_fixes,
)
from agentjobs.local_git.pull_heads import fetch_heads
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs_dependencies.fix_plan import Exposure
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.protocol.outcomes import JobFailed


async def leave_out_proposed(
    run: ServiceRun, repo: HostedRepo, base: str, fixes: tuple[Fix, ...], before: Exposure
) -> tuple[Fix, ...]:
    """The fixes that are left to propose, claimed so that no second job proposes them.

    Raises JobFailed when none is.
    """
    job = run.job
    if job.cause is None or job.follows is not None:
        return fixes
    pulls = await _find_pulls(run, repo, base, fixes)
    remaining = remaining_fixes(fixes, pulls.keys(), before)
    if not remaining:
        fix = fixes[0]
        raise _proposed_by(f"The pull request {pulls[fix.key].url}", fix)
    created_for = {
        (fix.manifest, fix.ecosystem, fix.package, fix.fix_version) for fix in job.cause.all_fixes
    }
    keys = {fix.key for fix in remaining}
    jobs = await take_over_fixes(run.db, job.repo_id, job.id, keys, created_for)
    not_proposed = remaining_fixes(remaining, jobs.keys(), before)
    if not not_proposed:
        fix = remaining[0]
        raise _proposed_by(f"The job {jobs[fix.key]}", fix)
    for fix in fixes:
        if fix not in not_proposed:
            run.log.note(f"{fix.package} {fix.old} in {fix.manifest} is fixed elsewhere")
    return not_proposed


def remaining_fixes(
    fixes: Sequence[Fix], proposed: Collection[FixKey], before: Exposure
) -> tuple[Fix, ...]:
    """Without the proposed ones, except where another file with the package that is installed
    together with theirs has to be fixed, too: both need one version."""
    missing = [fix for fix in fixes if fix.key not in proposed]

    def is_needed(fix: Fix) -> bool:
        together = before.installed_with(fix.manifest)
        return any(
            (other.ecosystem, other.package) == (fix.ecosystem, fix.package)
            and other.manifest in together
            for other in missing
        )

    return tuple(fix for fix in fixes if is_needed(fix))


def _proposed_by(subject: str, fix: Fix) -> JobFailed:
    text = f"already proposes to upgrade {fix.package} in {fix.manifest} to {fix.new}."
    return JobFailed("no_changes", f"{subject} {text}")


async def _find_pulls(
    run: ServiceRun, repo: HostedRepo, base: str, fixes: Sequence[Fix]
) -> dict[FixKey, ProposingPull]:
    """Empty if they cannot be read: none was known when the job was created."""
    job = run.job
    scanned = ScannedRepo(
        id=job.repo_id,
        organization=job.organization,
        full_name=repo.address.full_name,
        default_branch=job.base_branch,
        head_commit=base,
        connection_id=job.connection_id or "",
        external_id=job.external_id or "",
    )
    versions: dict[FixKey, frozenset[str]] = {}
    for fix in fixes:
        versions[fix.key] = versions.get(fix.key, frozenset()) | {fix.old}
    wanted = [WantedFix(key, old) for key, old in versions.items()]

    @asynccontextmanager
    async def open_commits(commits: Collection[str]) -> AsyncIterator[Path]:
        scratch = run.settings.data_path
        async with (
            repo.adapter.open_remote(repo.address, job.credential) as remote,
            fetch_heads(remote, run.mirror, commits, scratch=scratch) as git_dir,
        ):
            yield git_dir

    reader = OpenPullReader(run.db, run.settings, run.tools.platforms)
    try:
        async with asyncio.timeout(PROPOSED_SECONDS):
            known = await load_proposed_fixes(run.db, job.repo_id)
            numbers = {pull.number for pull in known.values()}
            proposed = await reader.find_proposed(scanned, wanted, numbers, open_commits)
    except (PlatformError, GitError, IndexFailure, OSError) as error:
        run.log.note(f"open pull requests were not read: {error}")
        return {}
    if proposed.by_fix:
        await run.db.transact(add_proposed_fixes, job.repo_id, proposed.by_fix)
    return proposed.by_fix

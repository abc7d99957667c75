"""Publishes the finished work of one job: from the bundle that its worker sent to the pull request.

Only the tree of the bundle's commit is used, and checked again by the rules of its base commit.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from agentjobs.environments.request import load_request
from agentjobs.jobs.queue.kept_work import load_kept_work
from agentjobs.jobs.results.diffs import store_diff
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.commit import commit_tree
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork, find_merged_pull, find_own_commit
from agentjobs.publishing.failures import to_failure
from agentjobs.publishing.hosted_repo import HostedRepo, open_repo, publishing_outage, sync_soon
from agentjobs.publishing.platform_signing import sign_by_platform
from agentjobs.publishing.pull_request import open_pull_request, pull_options
from agentjobs.publishing.pull_text import read_pull_text
from agentjobs.publishing.push import push_commit
from agentjobs.publishing.ticket import find_ticket_again, link_ticket
from agentjobs.pulls.finished_branches import CLOSED_DELAY_MS, record_finished_branch
from agentjobs.store.database import StoreError, StoreUnavailable
from agentjobs_runtime.change_rules import Protection, check_commit
from agentjobs_runtime.environments.setup_scripts import named_scripts
from agentjobs_runtime.git.process import GitError, GitTimeout
from agentjobs_runtime.mirrors.bundle import import_bundle
from agentjobs_runtime.mirrors.errors import PushDenied, RepoUnavailable
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    Completed,
    DiskFull,
    Failed,
    JobFailed,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_runtime.protocol.shortage import is_machine_exhausted
from agentjobs_runtime.repo_configuration import Configuration
from agentjobs_runtime.repo_files.patterns import parse_patterns

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Publication:
    """`pushed_commit` is set once the branch is pushed: it is too late to cancel then."""

    run: ServiceRun
    pushed_commit: str | None = None


async def publish(publication: Publication) -> Outcome:
    """How it ended; only a cancellation is raised."""
    try:
        return await _publish(publication)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the job must end
        return await _to_outcome(error, publication)


async def _publish(publication: Publication) -> Completed:
    run = publication.run
    run.phases.begin("push")
    repo = await open_repo(run)
    with run.tools.mirrors.in_use(run.job.repo_id):
        work = await _restore(run, repo)
        summary = await run.tools.commit_summaries.load(run.mirror, run.job.repo_id, work.base)
        configuration = await asyncio.to_thread(summary.parse_configuration)
        requested = await load_request(
            run.db, run.job.repo_id, run.mirror, work.base, summary, configuration
        )
        await _check(run, work, configuration, requested.request.definition.setup)
        with contextlib.suppress(GitError, OSError):
            await store_diff(run.db, run.job, run.mirror, work.base, work.commit)
        if (merged := await find_merged_pull(run, repo, work.base)) is not None:
            await repo.end_outage()
            return merged
        text = (await read_pull_text(run.mirror, work.commit)).redact(run.log.redact)
        work = await commit_tree(run, work, text)
        ticket = await find_ticket_again(run, repo)
        work = await sign_by_platform(run, repo, work)
        work = await push_commit(run, repo, work)
        publication.pushed_commit = work.commit
        options = pull_options(run.job, configuration)
        pull = await open_pull_request(run, repo, options, work, text, run.job.verification)
        await repo.end_outage()
        await link_ticket(run, ticket, pull, text.title)
        return pull


async def _restore(run: ServiceRun, repo: HostedRepo) -> PushedWork:
    """Add the commit to the mirror. Raises JobFailed if it is not one of this job."""
    job = run.job
    work = await load_kept_work(run.db, job.id)
    if work is None:
        # Another process ended the job.
        raise ClaimLost
    await repo.fetch(job.base_branch, work.base_commit)
    await import_bundle(run.mirror, work.bundle, work.head_commit)
    own = await find_own_commit(run.mirror, work.head_commit, job)
    if own is None or (own.base, own.commit) != (work.base_commit, work.head_commit):
        raise JobFailed("repo_unavailable", "The work that was kept is not a commit of this job.")
    return PushedWork(own.base, own.commit)


async def _check(
    run: ServiceRun, work: PushedWork, configuration: Configuration, setup: str
) -> None:
    """Raises UnsafeChange. An admin may have protected more paths since the agent ended."""
    patterns = (configuration.protected_paths, run.job.lifted_paths, named_scripts(setup))
    protection = Protection(*map(parse_patterns, patterns))
    await check_commit(run.mirror, work.base, work.commit, protection)


async def _to_outcome(error: Exception, publication: Publication) -> Outcome:
    run = publication.run
    match error:
        case ClaimLost():
            return Abandoned()
        case StoreUnavailable():
            return Released()
        case RepoUnavailable() | PlatformError() | PushDenied():
            if (outage := await publishing_outage(error, run)) is not None:
                run.phases.begin("publishing")
                run.log.note(f"the work waits until its platform responds: {outage.message}")
                return Unreachable(outage)
            if isinstance(error, PlatformError) and error.is_of_connection:
                await sync_soon(run)
    failure = to_failure(error, run.job, is_pushed=publication.pushed_commit is not None)
    # Where the service keeps its files is not shown to clients.
    message = run.log.redact(failure.message.replace(run.settings.data_dir, "…"))
    failure = Failed(failure.code, message)
    is_slow = isinstance(error, GitTimeout)
    if is_slow or is_lack_of_space(error, run.settings) or is_machine_exhausted(error):
        run.phases.begin("publishing")
        run.log.note(f"the work waits for the machine of the service: {message}")
        return DiskFull(failure, 0)
    await _leave_branch(publication)
    return failure


async def _leave_branch(publication: Publication) -> None:
    """The branch of a job that fails after its push has no pull request and is deleted."""
    run, commit = publication.run, publication.pushed_commit
    if commit is None or run.job.connection_id is None or run.job.follows is not None:
        return
    with contextlib.suppress(StoreError):
        await run.db.transact(
            record_finished_branch, run.job.repo_id, run.job.branch, commit, CLOSED_DELAY_MS
        )

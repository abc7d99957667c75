"""Keeps finished work while its platform does not respond, and restores what was kept.

The agent never runs again for work that is done.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from agentjobs.jobs.queue.kept_work import MAX_BUNDLE_BYTES, load_kept_work
from agentjobs.jobs.queue.platform_outages import REFUSED_RETRY_MS
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.context import FinishedWork, ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork, find_own_commit
from agentjobs.publishing.hosted_repo import HostedRepo, classify_outage, sync_soon
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.leases import backoff_ms
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.bundle import create_bundle, import_bundle
from agentjobs_runtime.mirrors.errors import PushDenied, RepoUnavailable
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import Completed, JobFailed, Kept, KeptWork, Outage

_STORE_PAUSE_SECONDS = 0.5
# Work that is too large for the store waits in its worker.
_MAX_HOLD_SECONDS = 3_600.0
_FIRST_HOLD_MS = 5_000
_MAX_HOLD_MS = 60_000


async def publish_or_keep(
    run: ServiceRun, work: FinishedWork, publish: Callable[[], Awaitable[Completed]]
) -> Completed | Kept:
    """Publish the finished work; while its platform does not respond, it is kept instead."""
    give_up_at = time.monotonic() + _MAX_HOLD_SECONDS
    failures = 0
    while True:
        try:
            return await publish()
        except StoreUnavailable:
            # The lease ends this run unless the database returns in time.
            await asyncio.sleep(_STORE_PAUSE_SECONDS)
        except (RepoUnavailable, PlatformError, PushDenied) as error:
            outage = await publishing_outage(error, run)
            if outage is None:
                raise
            kept = await keep_finished_work(run, work, outage)
            if kept is not None:
                return kept
            if time.monotonic() > give_up_at:
                if outage.key != run.job.refusal_key:
                    await warn_of_lost_work(run)
                raise
            await asyncio.sleep(backoff_ms(failures, _FIRST_HOLD_MS, _MAX_HOLD_MS) / 1_000)
            failures += 1


async def publishing_outage(
    error: RepoUnavailable | PlatformError | PushDenied, run: ServiceRun
) -> Outage | None:
    """Why finished work has to wait; None if the platform would never accept it."""
    if not isinstance(error, PushDenied) and error.is_temporary:
        return classify_outage(error, run)
    is_final = isinstance(error, PlatformError) and not error.is_of_connection
    if is_final or is_lack_of_space(error, run.settings):
        return None
    await sync_soon(run)
    minutes = REFUSED_RETRY_MS // (60 * SECOND_MS)
    await run.warn(
        f"The platform does not accept the finished work, which is kept for 24 hours: {error}"
        f" Remove the cause: the work is then published within {minutes} minutes, or as soon as the"
        " connection is checked, without running the agent again.",
    )
    return Outage(run.job.refusal_key, run.log.redact(str(error)))


async def keep_finished_work(
    run: ServiceRun, work: FinishedWork | None, outage: Outage | None = None
) -> Kept | None:
    """None if there is no finished work, or if it cannot be kept."""
    if work is None:
        return None
    try:
        bundle = await create_bundle(run.mirror, work.base, work.commit, MAX_BUNDLE_BYTES)
    except (GitError, OSError) as error:
        run.log.note(f"the work cannot be kept: {error}")
        return None
    if bundle is None:
        limit = MAX_BUNDLE_BYTES // 1024**2
        run.log.note(f"the work has more than {limit} MiB, so only this worker can publish it")
        return None
    reason = "" if outage is None else f": {outage.message}"
    run.log.note(f"the work is kept and will be published without running the agent{reason}")
    return Kept(KeptWork(work.base, work.commit, bundle), outage)


async def warn_of_lost_work(run: ServiceRun) -> None:
    """Warns that finished work could be neither published nor kept."""
    limit = MAX_BUNDLE_BYTES // 1024**2
    await run.warn(
        f"The agent's work of attempt {run.job.attempt + 1} is lost: it could not be published,"
        f" and only up to {limit} MiB can be kept. The agent runs again.",
    )


async def restore_kept_work(run: ServiceRun, repo: HostedRepo) -> PushedWork:
    """Add the work that an earlier attempt kept to the mirror."""
    job = run.job
    work = await load_kept_work(run.db, job.id)
    if work is None:
        # Another process ended the job.
        raise ClaimLost
    await repo.fetch(job.base_branch, work.base_commit)
    with run.tools.mirrors.in_use(job.repo_id):
        await import_bundle(run.mirror, work.bundle, work.head_commit)
        own = await find_own_commit(run.mirror, work.head_commit, job)
    if own is None or (own.base, own.commit) != (work.base_commit, work.head_commit):
        raise JobFailed("repo_unavailable", "The work that was kept is not a commit of this job.")
    run.log.note(f"restored {own.commit[:12]}, the work that was kept")
    return PushedWork(own.base, own.commit)

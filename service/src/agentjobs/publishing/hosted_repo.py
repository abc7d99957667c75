"""A job's repository on its platform: fetches, pushes and reads branches under the job's claim."""

import contextlib
from dataclasses import dataclass

from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.platform_outages import REFUSED_RETRY_MS, end_outages
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.http.responses import ApiError
from agentjobs.platforms.protocol import BasePlatform, PlatformError, RepoAddress
from agentjobs.publishing.context import ServiceRun, ServiceTools
from agentjobs.publishing.retry import retry_while_unreachable
from agentjobs.repos.queues import request_sync
from agentjobs.store.database import StoreError
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.mirrors.errors import PushDenied, RepoUnavailable
from agentjobs_runtime.mirrors.publish import branch_head, push
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed, JobFailed, Outage
from agentjobs_runtime.tracing.spans import traced

# For longer outages a job waits in the queue.
RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class HostedRepo:
    """Each operation gets its own credential from the adapter, since an agent may run for hours."""

    run: ServiceRun
    adapter: BasePlatform
    address: RepoAddress

    @property
    def is_remote(self) -> bool:
        """Whether another service hosts it, rather than the platform `local`."""
        return self.run.job.connection_id is not None

    async def fetch(self, branch: str, known_head: str | None) -> str:
        """Fetch a branch into the mirror and return its commit.

        Raises BaseBranchMissing, RepoUnavailable, GitError and PlatformError.
        """

        async def fetch() -> str:
            job = self.run.job
            async with self.adapter.open_remote(self.address, job.credential) as remote:
                return await self.run.tools.mirrors.fetch_commit(
                    job.repo_id, remote, branch=branch, known_head=known_head
                )

        return await retry_while_unreachable(fetch, self.run.log.note)

    async def branch_head(self) -> str | None:
        """The commit of the job's branch on the platform."""

        return await retry_while_unreachable(self._branch_head, self.run.log.note)

    async def check_outage(self) -> None:
        """After an outage, ask the platform before the agent starts, which costs money.

        Raises RepoUnavailable or PlatformError, without retries, while the platform is away.
        """
        if self.run.job.has_outage:
            await self._branch_head()

    async def end_outage(self) -> None:
        """The platform responded to everything that was asked: its API may be away without git."""
        job = self.run.job
        if job.has_outage:
            keys = job.platform_keys if job.kept_at is None else job.outage_keys
            await end_outages(self.run.db, *keys)

    async def push(self, commit: str, expected: str | None) -> bool:
        """Push to the job's branch if it is still at `expected`; False if it has the commit
        already. Raises PushRejected."""

        async def send() -> bool:
            await self.check_claim()
            job = self.run.job
            async with self.adapter.open_remote(self.address, job.credential) as remote:
                return await push(self.run.mirror, commit, job.branch, remote, expected=expected)

        return await retry_while_unreachable(send, self.run.log.note)

    async def _branch_head(self) -> str | None:
        async with self.adapter.open_remote(self.address, self.run.job.credential) as remote:
            return await branch_head(remote, self.run.job.branch)

    async def check_claim(self) -> None:
        """The platform `local` checks the job's credential; for the others we check it here."""
        job = self.run.job
        if self.is_remote and not await self.run.db.transact(
            may_write_branch, job.repo_id, job.branch, job.credential
        ):
            raise PlatformError("The credential of this job is no longer valid.")


def classify_outage(error: RepoUnavailable | PlatformError, run: ServiceRun) -> Outage:
    """A host that responded with an error may fail for this repository alone."""
    if isinstance(error, RepoUnavailable):
        is_of_repo = not error.is_host_unreachable
    else:
        is_of_repo = error.fault == "unusable"
    key = run.job.repo_id if is_of_repo else run.job.platform_key
    seconds = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
    return Outage(key, run.log.redact(str(error)), seconds)


async def sync_soon(run: ServiceRun) -> None:
    """Check the connection soon, so that its page shows the fault too."""
    with contextlib.suppress(StoreError):
        await run.db.transact(request_sync, run.job.repo_id)


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


async def open_repo(run: ServiceRun) -> HostedRepo:
    adapter = await _adapter(run) if run.job.repo_is_connected else None
    if adapter is None:
        message = f"The repository {run.job.repo!r} is disconnected."
        raise JobFailed("repo_unavailable", message)
    job = run.job
    name = job.repo if job.connection_id is None else await _current_name(run)
    address = RepoAddress(job.organization, name, job.repo_id, job.external_id)
    return HostedRepo(run, adapter, address)


@traced("fetch")
async def fetch_base_commit(run: ServiceRun, repo: HostedRepo) -> str:
    job = run.job
    if job.adopted_base is not None:
        # The worker that started the agent has fetched it into this data directory.
        return job.adopted_base
    known_head = job.repo_head if job.base_branch == job.default_branch else None
    return await repo.fetch(job.base_branch, known_head)


async def fetch_default_branch(tools: ServiceTools, repo_id: str, credential: str) -> str:
    """Fetch it into the mirror and return its commit."""
    row = await tools.context.db.fetch_one(
        "SELECT r.full_name, r.platform, r.connection_id, r.external_id,"
        " r.default_branch, r.head_commit, o.name AS organization"
        " FROM repos r JOIN organizations o ON o.id = r.organization_id"
        " WHERE r.id = :id AND r.disconnected_at IS NULL",
        id=repo_id,
    )
    adapter: BasePlatform | None = None
    if row is not None and row["connection_id"] is None:
        adapter = tools.builtin_adapters.get(row["platform"])
    elif row is not None:
        adapter = await tools.platforms.adapter_for(row["connection_id"])
    if row is None or adapter is None:
        raise EnvironmentFailed("The repository is disconnected.")
    external_id = row["external_id"] or ""
    address = RepoAddress(row["organization"], row["full_name"], repo_id, external_id)
    async with adapter.open_remote(address, credential) as remote:
        return await tools.mirrors.fetch_commit(
            repo_id, remote, branch=row["default_branch"], known_head=row["head_commit"]
        )


async def _adapter(run: ServiceRun) -> BasePlatform | None:
    if run.job.connection_id is None:
        return run.tools.builtin_adapters.get(run.job.platform)
    retry_budget = RetryBudget(RETRY_SECONDS, run.log.note)
    return await run.tools.platforms.adapter_for(run.job.connection_id, retry_budget)


async def _current_name(run: ServiceRun) -> str:
    """The platform may have renamed the repository since the job was created."""
    row = await run.db.fetch_one("SELECT full_name FROM repos WHERE id = :id", id=run.job.repo_id)
    return run.job.repo if row is None else str(row["full_name"])

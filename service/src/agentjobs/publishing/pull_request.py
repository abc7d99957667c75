"""Opens the pull request of a pushed commit, or updates the one that a follow-up continues."""

import msgspec

from agentjobs.jobs.views.listing import read_cost
from agentjobs.platforms.protocol import PullRequest, PullRequestRequest
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.publishing.pull_text import PullText, pull_body
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.pulls.status_rows import request_status
from agentjobs.repos.codeowners import find_change_owners
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import retry_within_lease
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.protocol.verification import Verification
from agentjobs_runtime.repo_configuration import Configuration
from agentjobs_runtime.tracing.spans import traced


class PullOptions(msgspec.Struct, frozen=True):
    """What the repository and the request want of the pull request."""

    draft: bool = False
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def pull_options(job: ClaimedJob, configuration: Configuration) -> PullOptions:
    override = job.config_override
    return PullOptions(
        draft=bool(override.get("draft", configuration.draft)),
        reviewers=tuple(override.get("reviewers") or configuration.reviewers),
        labels=configuration.labels,
    )


@traced("pull request")
async def open_pull_request(
    run: ServiceRun,
    repo: HostedRepo,
    options: PullOptions,
    pushed: PushedWork,
    text: PullText,
    verification: Verification | None,
) -> Completed:
    run.phases.begin("pull_request")
    is_follow_up = run.job.follows is not None
    has_failed_checks = verification is not None and not verification.passed
    request = PullRequestRequest(
        head_branch=run.job.branch,
        base_branch=run.job.base_branch,
        head_commit=pushed.head or pushed.commit,
        base_commit=pushed.base,
        title=text.title,
        body=await _body(run, text, verification),
        # A follow-up leaves a pull request as it is, unless its result is not proven.
        draft=has_failed_checks or text.is_draft or (options.draft and not is_follow_up),
        reviewers=options.reviewers or await _code_owners(run, repo, pushed),
        labels=options.labels,
        is_follow_up=is_follow_up,
    )
    pull = await _open(run, repo, request)
    action = "updated" if is_follow_up else "opened"
    run.log.note(f"{action} pull request #{pull.number}: {pull.url}")
    for note in pull.notes:
        run.log.note(note)
    return Completed(pull.url, pull.number, pushed.commit, pull.draft)


async def _body(run: ServiceRun, text: PullText, verification: Verification | None) -> str:
    row = await run.db.fetch_one("SELECT usage FROM jobs WHERE id = :id", id=run.job.id)
    return pull_body(
        run.job,
        text,
        verification,
        job_url=f"{run.settings.effective_public_url}/jobs/{run.job.id}",
        cost_usd=read_cost(row["usage"]) if row is not None else None,
    )


async def _code_owners(run: ServiceRun, repo: HostedRepo, pushed: PushedWork) -> tuple[str, ...]:
    """The platform `local` has no reviewers to request."""
    if not repo.is_remote:
        return ()
    await repo.fetch(run.job.branch, pushed.commit)
    return await find_change_owners(
        run.mirror, pushed.base, pushed.commit, run.job.platform, run.log.note
    )


async def _open(run: ServiceRun, repo: HostedRepo, request: PullRequestRequest) -> PullRequest:
    await repo.check_claim()
    pull = await repo.adapter.open_pull_request(repo.address, run.job.credential, request)
    if repo.is_remote:
        await retry_within_lease(
            lambda: run.db.transact(_record, run.job, request, pull),
            run.settings.lease_seconds,
        )
    return pull


async def _record(
    tx: Transaction, job: ClaimedJob, request: PullRequestRequest, pull: PullRequest
) -> None:
    await record_pull(tx, job.repo_id, request, pull)
    await request_status(tx, job.repo_id, job.branch, job.id)

"""One run of one job, from the base commit to the finished work or report. Steps are beside it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.agents.report import read_report
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.protocol.messages import RecordPhases, StartJob
from agentjobs_runtime.protocol.outcomes import Completed, JobFailed, Kept, Outcome, Reported
from agentjobs_runtime.repo_configuration import Configuration
from agentjobs_runtime.threads import run_in_thread
from agentjobs_runtime.tracing.spans import traced_entry
from agentjobs_worker.link.commits import CommitSummary
from agentjobs_worker.link.environments import load_request
from agentjobs_worker.link.publishing import (
    FinishedWork,
    HostedRepo,
    PushedWork,
    fetch_base_commit,
    find_merged_pull,
    find_own_commit,
    find_pushed_work,
    find_ticket,
    load_attribution,
    load_previous_pull,
    open_repo,
    plan_cve_fix,
    pull_text,
    ticket_details,
)
from agentjobs_worker.run.active_environment import ActiveEnvironment, open_environment
from agentjobs_worker.run.agent import run_agent
from agentjobs_worker.run.checks import run_checks
from agentjobs_worker.run.commit import commit_work
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.environment import RunEnvironment, choose_environment
from agentjobs_worker.run.failures import to_outcome
from agentjobs_worker.run.host_exhaustion import retry_while_exhausted
from agentjobs_worker.run.plan import RunPlan, plan_run
from agentjobs_worker.run.prompt import prepare_task
from agentjobs_worker.run.report import read_job_report, warn_of_pull_options
from agentjobs_worker.run.results import collect_artifacts, store_results_at_end
from agentjobs_worker.run.upload import pack_work
from agentjobs_worker.sandbox.protocol import SandboxLost
from agentjobs_worker.workspace.checkout import Checkout

_log = logging.getLogger(__name__)


async def run_job(run: RunContext) -> Outcome:
    """Run the job and return how it ended; only a cancellation is raised."""

    async def store_phases(phases: str) -> None:
        await run.link.call(RecordPhases(run.job.claim, phases))

    try:
        async with run.phases.store_in_background(store_phases):
            return await _run(run)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the job must end
        if run.report is not None:
            # The agent's work is done, whatever failed after it.
            _log.warning("a run failed after its report was written", exc_info=error)
            return run.report
        await store_results_at_end(run, error)
        return await to_outcome(error, run)


async def _run(run: RunContext) -> Completed | Reported | Kept:
    agent = _agent(run)
    repo = await open_repo(run.service)
    await repo.check_outage()
    base = await fetch_base_commit(run.service, repo)
    # Until the push, the mirror is the only place that has the commits.
    with run.tools.mirrors.in_use(run.job.repo_id):
        summary = await run.tools.service.commit_summaries.load(run.mirror, run.job.repo_id, base)
        configuration = await _configuration(run, summary)
        plan = plan_run(run.job, agent, configuration)
        if (pushed := await find_pushed_work(run.service, repo, base)) is not None:
            return await _adopt(run, repo, pushed)
        if (merged := await find_merged_pull(run.service, repo, base)) is not None:
            await repo.end_outage()
            await _start(run, base)
            return merged
        requested = await load_request(
            run.service.db, run.job.repo_id, run.mirror, base, summary, configuration
        )
        plan = plan.protect_scripts(requested.request.definition.setup)
        choice = choose_environment(run, plan, base, requested)
        async with traced_entry("environment", choice) as environment:
            _check_adopted(run, environment)
            work = _report if agent.result == "report" else _propose
            return await work(run, repo, plan, base, summary, environment)


async def _propose(
    run: RunContext,
    repo: HostedRepo,
    plan: RunPlan,
    base: str,
    summary: CommitSummary,
    environment: RunEnvironment,
) -> Kept:
    ticket = await find_ticket(run.service, repo)
    fix = await plan_cve_fix(run.service, repo, base)
    plan = msgspec.structs.replace(plan, network=fix.narrow(plan.network))
    previous = await load_previous_pull(run.service.db, repo.adapter, repo.address, run.job)
    # A signing key that cannot be opened fails the job before its agent costs money.
    await load_attribution(run.service)
    await repo.end_outage()
    opening = _open_checkout(run, plan, base, environment)
    async with traced_entry("checkout", opening) as (checkout, active):
        task = prepare_task(run, plan, checkout, summary, ticket, previous, fix.job_file_entries)
        async with collect_artifacts(run, task.run_dir):
            await run_agent(run, plan, checkout, active, task)
        report = await run_in_thread(read_report, task.run_dir)
        text = pull_text(run.job, plan.agent.name, report, ticket_details(ticket))
        text = text.redact(run.log.redact)
        # The checks come after the commit: what they leave in the tree is not proposed.
        commit = await retry_while_exhausted(
            lambda: commit_work(run, plan, checkout, text), run.log.note
        )
        run.change = FinishedWork(base, commit)
        await fix.verify(commit)
        await retry_while_exhausted(lambda: run_checks(run, plan, checkout, active), run.log.note)
    run.finished_work = work = FinishedWork(base, commit)
    # The service stores the change that it publishes.
    run.change = None
    await store_results_at_end(run)
    return await retry_while_exhausted(lambda: pack_work(run, work), run.log.note)


async def _report(
    run: RunContext,
    repo: HostedRepo,
    plan: RunPlan,
    base: str,
    summary: CommitSummary,
    environment: RunEnvironment,
) -> Reported:
    """The tree is discarded: nothing is committed, pushed or opened."""
    ticket = await find_ticket(run.service, repo)
    await warn_of_pull_options(run, plan)
    await repo.end_outage()
    opening = _open_checkout(run, plan, base, environment)
    async with traced_entry("checkout", opening) as (checkout, active):
        task = prepare_task(run, plan, checkout, summary, ticket, None, {})
        async with collect_artifacts(run, task.run_dir):
            await run_agent(run, plan, checkout, active, task)
            run.report = await read_job_report(run, plan.agent, task.run_dir)
    await store_results_at_end(run)
    return run.report


@contextlib.asynccontextmanager
async def _open_checkout(
    run: RunContext, plan: RunPlan, base: str, environment: RunEnvironment
) -> AsyncIterator[tuple[Checkout, ActiveEnvironment]]:
    async with (
        run.tools.spare_sandboxes.borrow(run.slot) as directory,
        run.tools.workspaces.checkout(
            run.job.repo_id,
            base,
            owner_uid=run.tools.sandbox.owner_uid(run.slot),
            organization_id=run.job.organization_id,
            into=directory,
            is_reusable=not environment.has_layers,
        ) as checkout,
        open_environment(run, plan, environment, checkout) as active,
    ):
        yield checkout, active


def _check_adopted(run: RunContext, environment: RunEnvironment) -> None:
    """Services and setup of an adopted agent ended with the worker that started them."""
    definition = environment.definition
    if run.job.is_adopted and (definition.services or definition.start or environment.runs_setup):
        raise SandboxLost("the services of its environment ended with the worker that started it")


async def _adopt(run: RunContext, repo: HostedRepo, pushed: PushedWork) -> Kept:
    """Keep what an earlier attempt pushed, without running the agent again."""
    await _start(run, pushed.base)
    head = pushed.head or pushed.commit
    await repo.fetch(run.job.branch, head)
    own = await find_own_commit(run.mirror, head, run.job)
    if own is None:
        raise PushRejected(f"the branch {run.job.branch!r} exists, and is not of this job")
    run.log.note(f"adopted {run.job.branch}, already pushed at {own.commit[:12]}")
    return await pack_work(run, FinishedWork(own.base, own.commit))


async def _start(run: RunContext, base: str) -> None:
    """Mark the job as running when no agent has to be started."""
    await run.link.call(StartJob(run.job.claim, base, phases=run.phases.encode()))


def _agent(run: RunContext) -> Agent:
    agent = run.tools.catalog.get(run.job.agent)
    if agent is None:
        message = f"The agent {run.job.agent!r} no longer exists."
        raise JobFailed("invalid_configuration", message)
    return agent


async def _configuration(run: RunContext, summary: CommitSummary) -> Configuration:
    if summary.configuration is None:
        configuration = summary.parse_configuration()
    else:
        # A file of the allowed size can take a tenth of a second.
        configuration = await asyncio.to_thread(summary.parse_configuration)
    await run.warn(*configuration.warnings)
    return configuration

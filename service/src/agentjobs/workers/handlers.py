"""Answers the requests of workers, whatever transport they come over.

A request about a job is refused unless its worker holds the claim.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue import leases
from agentjobs.jobs.queue.adoption import adopt_jobs
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.results import run_records
from agentjobs.jobs.results.artifacts import store_artifacts
from agentjobs.jobs.steps.rows import last_sequence, store_steps
from agentjobs.repos.queries import find_deleted_repos
from agentjobs.workers.session import WorkerSession
from agentjobs_runtime.protocol import messages
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.messages import Request

T = TypeVar("T")


async def answer(session: WorkerSession, request: Request[T]) -> T:
    """Raises ServiceError, and ClaimLost for a claim that the worker does not hold."""
    return cast("T", await HANDLERS[type(request)](session, request))


async def _renew(session: WorkerSession, request: messages.Renew) -> messages.Renewal:
    session.register(request.worker)
    session.keep_only(request.claims)
    return await leases.renew(
        session.db,
        request.worker,
        request.claims,
        session.settings.lease_seconds,
        sent_at=request.sent_at,
        was_cut_off=request.was_cut_off,
    )


async def _begin_drain(session: WorkerSession, _request: messages.BeginDrain) -> None:
    await leases.begin_drain(session.db, session.worker_id)


async def _sign_off(session: WorkerSession, _request: messages.SignOff) -> None:
    await leases.sign_off(session.db, session.worker_id)


async def _claim(session: WorkerSession, request: messages.ClaimJobs) -> messages.ClaimedJobs:
    claimer = session.claimer
    claimer.extra_lease_seconds = request.extra_lease_seconds
    jobs = await claimer.claim(request.agents, request.count, request.expected, request.postponed)
    session.assign(jobs)
    return messages.ClaimedJobs(jobs, claimer.may_find_more)


async def _adopt(session: WorkerSession, request: messages.AdoptJobs) -> list[ClaimedJob]:
    jobs = await adopt_jobs(
        session.db,
        session.worker_id,
        request.dead_workers,
        count=request.count,
        lease_seconds=session.settings.lease_seconds,
    )
    session.assign(jobs)
    return jobs


async def _find_cancelled(
    session: WorkerSession, _request: messages.FindCancelled
) -> frozenset[Claim]:
    return await leases.cancel_requests(session.db, session.worker_id)


async def _find_deleted_repos(
    session: WorkerSession, request: messages.FindDeletedRepos
) -> set[str]:
    return await find_deleted_repos(session.db, request.repo_ids)


async def _start(session: WorkerSession, request: messages.StartJob) -> None:
    job = session.job(request.claim)
    await start_job(session.db, job, request.base_commit, request.prompt, request.phases)


async def _finish(session: WorkerSession, request: messages.FinishJob) -> bool:
    job = session.job(request.claim)
    is_stored = await finish_job(session.db, job, request.outcome, request.phases)
    if is_stored:
        session.end(request.claim)
    return is_stored


async def _append_log(session: WorkerSession, request: messages.AppendLog) -> None:
    job = session.job(request.claim)
    await append_chunk(
        session.db, job, request.text, request.at_ms, may_be_stored=request.may_be_stored
    )


async def _find_last_step(session: WorkerSession, request: messages.FindLastStep) -> int:
    return await last_sequence(session.db, session.job(request.claim).id)


async def _store_steps(session: WorkerSession, request: messages.StoreSteps) -> None:
    job = session.job(request.claim)
    await store_steps(session.db, job, request.steps, after=request.after)


async def _store_artifacts(session: WorkerSession, request: messages.StoreArtifacts) -> None:
    await store_artifacts(session.db, session.job(request.claim), request.artifacts)


async def _remove_results(session: WorkerSession, request: messages.RemoveResults) -> None:
    await run_records.remove_results(session.db, session.job(request.claim))


async def _record_phases(session: WorkerSession, request: messages.RecordPhases) -> None:
    await run_records.record_phases(session.db, session.job(request.claim), request.phases)


async def _record_environment(session: WorkerSession, request: messages.RecordEnvironment) -> None:
    job = session.job(request.claim)
    await run_records.record_environment(session.db, job, request.environment)


async def _record_verification(
    session: WorkerSession, request: messages.RecordVerification
) -> None:
    job = session.job(request.claim)
    await run_records.record_verification(session.db, job, request.verification)


HANDLERS: Mapping[type[Request[Any]], Callable[[WorkerSession, Any], Awaitable[Any]]] = {
    messages.Renew: _renew,
    messages.BeginDrain: _begin_drain,
    messages.SignOff: _sign_off,
    messages.ClaimJobs: _claim,
    messages.AdoptJobs: _adopt,
    messages.FindCancelled: _find_cancelled,
    messages.FindDeletedRepos: _find_deleted_repos,
    messages.StartJob: _start,
    messages.FinishJob: _finish,
    messages.AppendLog: _append_log,
    messages.FindLastStep: _find_last_step,
    messages.StoreSteps: _store_steps,
    messages.StoreArtifacts: _store_artifacts,
    messages.RemoveResults: _remove_results,
    messages.RecordPhases: _record_phases,
    messages.RecordEnvironment: _record_environment,
    messages.RecordVerification: _record_verification,
}

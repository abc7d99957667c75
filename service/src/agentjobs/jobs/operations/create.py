"""Creates jobs: the checks, the row, its event and its receipt in one transaction."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from agentjobs.jobs.model import CreateJobRequest, Receipt
from agentjobs.jobs.operations.audit import entry_for_person, write_entry
from agentjobs.jobs.operations.idempotency import (
    IdempotencyClaim,
    find_receipt,
    first_call,
    store_receipt,
)
from agentjobs.jobs.queue.acceptance import (
    Admission,
    RepoName,
    check_acceptable,
    load_admissions,
    require_admission,
)
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.estimate import estimate_start, prepare_estimate
from agentjobs.jobs.queue.fleet import FleetState
from agentjobs.jobs.queue.insert import NewJob, insert_jobs
from agentjobs.jobs.states import QUEUED
from agentjobs.organizations.audit import Entry
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs.store.grouping import transact_together
from agentjobs.webhooks.events import decode_endpoints
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.cause import Cause
from agentjobs_runtime.tracing.spans import begin_trace


class CreatedJob(msgspec.Struct, frozen=True):
    receipt: Receipt
    replayed: bool


class _Request(msgspec.Struct, frozen=True):
    context: JobsContext
    caller: Caller
    body: CreateJobRequest
    idempotency: IdempotencyClaim | None
    cause: Cause | None
    fleet: FleetState
    entry: Entry | None
    traceparent: str | None

    @property
    def repo(self) -> RepoName:
        return self.caller.organization_id, self.body.repo


async def create_job(
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    *,
    idempotency: IdempotencyClaim | None = None,
    cause: Cause | None = None,
) -> CreatedJob:
    """`cause` is only set when a job that vulnerable packages caused is run again."""
    with first_call(context.keys_in_flight, caller.organization_id, idempotency):
        fleet = await context.fleet.state()
        prepare_estimate(context.plans, caller, fleet, body)
        entry = entry_for_person("job.created", repo=body.repo, agent=body.agent)
        request = _Request(context, caller, body, idempotency, cause, fleet, entry, begin_trace())
        created = await transact_together(context.db, _create_all, request)
    if isinstance(created, Problem):
        raise created
    return created


async def _create_all(tx: Transaction, requests: Sequence[_Request]) -> list[CreatedJob | Problem]:
    """Requests of different callers: a refused one is a result, so that the others succeed."""
    lengths = requests[0].context.queue_lengths
    admissions = await load_admissions(tx, {request.repo for request in requests}, lengths)
    accepted: Counter[str] = Counter()
    jobs: list[NewJob] = []
    results: list[CreatedJob | Problem] = []
    now = await tx.clock_ms()
    for request in requests:
        organization_id = request.caller.organization_id
        try:
            earlier = await find_receipt(tx, organization_id, request.idempotency)
            if earlier is not None:
                results.append(CreatedJob(earlier, replayed=True))
                continue
            admission = require_admission(admissions, request.repo)
            job, receipt = _accept(request, admission, accepted[organization_id], now)
        except Problem as problem:
            results.append(problem)
            continue
        accepted[organization_id] += 1
        jobs.append(job)
        await write_entry(tx, organization_id, job.id, request.entry)
        await store_receipt(tx, organization_id, request.idempotency, receipt)
        results.append(CreatedJob(receipt, replayed=False))
    endpoints = {
        organization_id: decode_endpoints(admission.endpoints)
        for (organization_id, _), admission in admissions.items()
    }
    await insert_jobs(tx, jobs, endpoints, is_last=True)
    for organization_id, count in accepted.items():
        lengths.add(organization_id, count)
    return results


def _accept(
    request: _Request, admission: Admission, ahead: int, now: int
) -> tuple[NewJob, Receipt]:
    """`ahead` is how many jobs of the organization are created together with this one."""
    context, caller, body = request.context, request.caller, request.body
    if ahead:
        admission = msgspec.structs.replace(admission, queued_jobs=admission.queued_jobs + ahead)
    repo_id = check_acceptable(context, caller, body, admission)
    job = NewJob(
        new_id("job"),
        caller,
        repo_id,
        body,
        cause=request.cause,
        traceparent=request.traceparent,
    )
    estimate = estimate_start(context.plans, caller, request.fleet, admission, body, now)
    return job, Receipt(job.id, QUEUED, estimate)

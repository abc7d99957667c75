"""Creates a job: the checks, the row, its event and its receipt in one transaction."""

import msgspec

from agentjobs.identifiers import new_id
from agentjobs.jobs.acceptance import check_acceptable, load_admission
from agentjobs.jobs.audit import entry_for_person, write_entry
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.idempotency import IdempotencyClaim, find_receipt, first_call, store_receipt
from agentjobs.jobs.model import Cause, CreateJobRequest, Receipt
from agentjobs.jobs.queue.estimate import estimate_start
from agentjobs.jobs.queue.fleet import FleetState
from agentjobs.jobs.queue.insert import insert_job
from agentjobs.jobs.states import QUEUED
from agentjobs.organizations.audit import Entry
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction


class CreatedJob(msgspec.Struct, frozen=True):
    receipt: Receipt
    replayed: bool


async def create_job(
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    *,
    idempotency: IdempotencyClaim | None = None,
    cause: Cause | None = None,
) -> CreatedJob:
    """`cause` is only set when a job that the service created itself is run again."""
    with first_call(context.keys_in_flight, caller.organization_id, idempotency):
        fleet = await context.fleet.state()
        entry = entry_for_person("job.created", repo=body.repo, agent=body.agent)
        return await context.db.transact(
            _create, context, caller, body, idempotency, cause, fleet, entry
        )


async def _create(
    tx: Transaction,
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    idempotency: IdempotencyClaim | None,
    cause: Cause | None,
    fleet: FleetState,
    entry: Entry | None,
) -> CreatedJob:
    earlier = await find_receipt(tx, caller.organization_id, idempotency)
    if earlier is not None:
        return CreatedJob(earlier, replayed=True)
    admission = await load_admission(tx, caller.organization_id, body.repo)
    repo_id = check_acceptable(context, caller, body, admission)
    job_id = new_id("job")
    await insert_job(tx, job_id, caller, repo_id, body, cause=cause)
    await write_entry(tx, caller.organization_id, job_id, entry)
    estimate = estimate_start(context.plans, caller, fleet, admission, body.agent)
    receipt = Receipt(job_id, QUEUED, estimate)
    await store_receipt(tx, caller.organization_id, idempotency, receipt)
    return CreatedJob(receipt, replayed=False)

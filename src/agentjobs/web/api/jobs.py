"""The job endpoints: translate, call one verb of `jobs/`, translate back."""

import re

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from agentjobs.jobs.cancel import cancel_job
from agentjobs.jobs.create import CreatedJob, create_job
from agentjobs.jobs.follow_up import (
    FollowUpRequest,
    earlier_job,
    follow_up_faults,
    follow_up_job,
)
from agentjobs.jobs.model import CreateJobRequest, EventView, JobView
from agentjobs.jobs.states import STATUSES
from agentjobs.jobs.validation import faults_in
from agentjobs.jobs.views import queries
from agentjobs.jobs.views.wait import wait_for_change
from agentjobs.web.api.auth import unauthorized, until_refused
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.errors import stopping, validation_failed
from agentjobs.web.api.idempotency import key_faults, read_claim
from agentjobs.web.api.pagination import cut, read_page
from agentjobs.web.api.presence import Gone, while_present
from agentjobs.web.api.query import Query
from agentjobs.web.api.requests import null_character_faults, read_object

JOB_ID_PATTERN = "^job_[0-9a-hjkmnp-tv-z]{26}$"
DEFAULT_LIMIT = 20
MOST_LIMIT = 100
MOST_WAIT_SECONDS = 60
MOST_NAME_LENGTH = 255

_CURSOR = "jobs"
_is_job_id = re.compile(JOB_ID_PATTERN[1:-1]).fullmatch
_REPLAYED = ((b"idempotent-replay", b"true"),)


class JobList(msgspec.Struct, frozen=True):
    jobs: list[JobView]
    next_cursor: str | None


class PromptView(msgspec.Struct, frozen=True):
    job_id: str
    prompt: str | None


class EventList(msgspec.Struct, frozen=True):
    events: list[EventView]


async def create(call: Call) -> Response:
    body = await read_object(call.scope, call.receive)
    faults = [
        *faults_in(body, call.context.catalog),
        *null_character_faults(body),
        *key_faults(call.scope),
    ]
    if faults:
        raise validation_failed(faults)
    created = await create_job(
        call.context.jobs,
        call.caller,
        msgspec.convert(body, CreateJobRequest),
        idempotency=read_claim(call.scope, body),
    )
    return _accepted(created)


async def follow_up(call: Call) -> Response:
    job_id = job_id_of(call)
    body = await read_object(call.scope, call.receive)
    earlier = await earlier_job(call.context.db, call.caller.organization_id, job_id)
    faults = [
        *follow_up_faults(body, earlier, call.context.catalog),
        *null_character_faults(body),
        *key_faults(call.scope),
    ]
    if faults:
        raise validation_failed(faults)
    created = await follow_up_job(
        call.context.jobs,
        call.caller,
        job_id,
        msgspec.convert(body, FollowUpRequest),
        # The same words to another job are another request.
        idempotency=read_claim(call.scope, {"follows": job_id, "body": body}),
    )
    return _accepted(created)


async def show(call: Call) -> Response:
    job_id = job_id_of(call)
    seconds = _wait_seconds(call) if call.scope["query_string"] else 0
    if seconds:
        return Reply(200, await _changed_job(call, job_id, seconds))
    job = await queries.get_job(call.context.jobs, call.caller.organization_id, job_id)
    return Reply(200, job)


async def list_all(call: Call) -> Response:
    query = Query(call.scope)
    status = query.choice("status", STATUSES)
    repo = query.text("repo", most=MOST_NAME_LENGTH)
    agent = query.text("agent", most=MOST_NAME_LENGTH)
    page = read_page(query, _CURSOR, _is_job_id, most=MOST_LIMIT)
    query.check()
    limit = page.limit or DEFAULT_LIMIT
    # One more than asked for tells whether there is a next page.
    jobs = await queries.list_jobs(
        call.context.jobs,
        call.caller.organization_id,
        status=status,
        repo=repo,
        agent=agent,
        limit=limit + 1,
        before=page.after,
    )
    return Reply(200, JobList(*cut(jobs, limit, _CURSOR, lambda job: job.job_id)))


async def cancel(call: Call) -> Response:
    job = await cancel_job(call.context.jobs, call.caller.organization_id, job_id_of(call))
    return Reply(202, job)


async def list_events(call: Call) -> Response:
    organization_id = call.caller.organization_id
    found = await queries.list_events(call.context.db, organization_id, job_id_of(call))
    return Reply(200, EventList(found))


async def show_prompt(call: Call) -> Response:
    job_id = job_id_of(call)
    prompt = await queries.get_prompt(call.context.db, call.caller.organization_id, job_id)
    return Reply(200, PromptView(job_id, prompt))


def job_id_of(call: Call) -> str:
    """What cannot be a job's identifier is answered like one that is not there."""
    job_id = call.path["job_id"]
    if not _is_job_id(job_id):
        raise queries.job_not_found(job_id)
    return job_id


def _accepted(created: CreatedJob) -> Response:
    return Reply(202, created.receipt, _REPLAYED if created.replayed else ())


def _wait_seconds(call: Call) -> int:
    query = Query(call.scope)
    seconds = query.number("wait_seconds", least=0, most=MOST_WAIT_SECONDS)
    query.check()
    return seconds or 0


async def _changed_job(call: Call, job_id: str, seconds: int) -> JobView:
    context, organization_id = call.context, call.caller.organization_id
    if context.stopping.is_set():
        # Answered at once, a client that waits in a loop would spin.
        raise stopping()
    waiting = wait_for_change(context.jobs, organization_id, job_id, seconds)
    refused = until_refused(context, call.scope)
    job = await while_present(waiting, call.receive, context.stopping, refused)
    if job is Gone.KEY:
        raise unauthorized()
    if job is Gone.CLIENT:
        raise ClientDisconnect
    if job is Gone.SERVICE:
        return await queries.get_job(context.jobs, organization_id, job_id)
    return job

"""The job endpoints. Each one parses the request, calls one function of `jobs/` and replies."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.model import (
    CreateJobRequest,
    EventView,
    JobId,
    JobView,
    create_job_request,
)
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.create import CreatedJob, create_job
from agentjobs.jobs.operations.follow_up import (
    FollowUpRequest,
    earlier_job,
    follow_up_faults,
    follow_up_job,
)
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.operations.retry import RetryRequest, retry_job
from agentjobs.jobs.validation import plain_request, request_faults
from agentjobs.jobs.views import queries
from agentjobs.jobs.views.queries import wait_for_change
from agentjobs.web.api.connected import long_poll
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.errors import validation_failed
from agentjobs.web.api.idempotency import has_key, key_faults, read_claim
from agentjobs.web.api.query import read_query
from agentjobs.web.api.requests import (
    null_character_faults,
    parse_object,
    read_json,
    read_object,
    read_optional_object,
)
from agentjobs.web.api.warnings import keep_body
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.json_fields import doc, find_faults, select_fields
from agentjobs_runtime.problems import Fault

_is_job_id = id_matcher("job")
_REPLAYED = ((b"idempotent-replay", b"true"),)


class JobQuery(msgspec.Struct, frozen=True):
    wait_seconds: Annotated[
        int, Meta(description="How long to wait for the status to change.", ge=0, le=60)
    ] = 0
    wait_for: Annotated[
        Literal["change", "final"],
        doc(
            "What ends the wait of `wait_seconds`: any change of the status, or only the job's end."
        ),
    ] = "change"


class PromptView(msgspec.Struct, frozen=True):
    job_id: JobId
    prompt: Annotated[str | None, doc("The prompt; null before the agent was started.")]


class EventList(msgspec.Struct, frozen=True):
    events: Annotated[list[EventView], doc("The events, oldest first.")]


async def create(call: Call) -> Response:
    content = await read_json(call.scope, call.receive)
    if has_key(call.scope) or (request := plain_request(content)) is None:
        body = parse_object(content)
        keep_body(call.scope, body)
        request, idempotency = _examine(call, body)
    else:
        idempotency = None
    created = await create_job(call.context.jobs, call.caller, request, idempotency=idempotency)
    return _receipt_response(created)


def _examine(call: Call, body: dict[str, Any]) -> tuple[CreateJobRequest, IdempotencyClaim | None]:
    _check_faults(call, body, request_faults(body, call.context.catalog))
    return create_job_request(body), read_claim(call.scope, body)


def _check_faults(call: Call, body: dict[str, Any], faults: list[Fault]) -> None:
    """Raises `validation_failed` for these faults and those of any new job."""
    faults = [*faults, *null_character_faults(body), *key_faults(call.scope)]
    if faults:
        raise validation_failed(faults)


async def follow_up(call: Call) -> Response:
    job_id = parse_job_id(call)
    body = await read_object(call.scope, call.receive)
    earlier = await earlier_job(call.context.db, call.caller.organization_id, job_id)
    _check_faults(call, body, follow_up_faults(body, earlier, call.context.catalog))
    created = await follow_up_job(
        call.context.jobs,
        call.caller,
        job_id,
        FollowUpRequest(**select_fields(body, FollowUpRequest)),
        # The same body for another job is a different request.
        idempotency=read_claim(call.scope, {"follows": job_id, "body": body}),
    )
    return _receipt_response(created)


async def retry(call: Call) -> Response:
    job_id = parse_job_id(call)
    body = await read_optional_object(call.scope, call.receive)
    _check_faults(call, body, find_faults(body, RetryRequest))
    created = await retry_job(
        call.context.jobs,
        call.caller,
        job_id,
        labels=body.get("labels"),
        idempotency=read_claim(call.scope, {"retries": job_id, "body": body}),
    )
    return _receipt_response(created)


async def show(call: Call) -> Response:
    job_id = parse_job_id(call)
    query = read_query(call.scope, JobQuery)
    if query.wait_seconds:
        return Reply(200, await _wait(call, job_id, query))
    job = await queries.get_job(call.context.jobs, call.caller.organization_id, job_id)
    return Reply(200, job)


async def cancel(call: Call) -> Response:
    organization_id, job_id = call.caller.organization_id, parse_job_id(call)
    await cancel_job(call.context.db, organization_id, job_id)
    job = await queries.get_job(call.context.jobs, organization_id, job_id)
    return Reply(202, job)


async def list_events(call: Call) -> Response:
    organization_id = call.caller.organization_id
    events = await queries.list_events(call.context.db, organization_id, parse_job_id(call))
    return Reply(200, EventList(events))


async def show_prompt(call: Call) -> Response:
    job_id = parse_job_id(call)
    prompt = await queries.get_prompt(call.context.db, call.caller.organization_id, job_id)
    return Reply(200, PromptView(job_id, prompt))


def parse_job_id(call: Call) -> str:
    """Malformed identifiers get the same response as unknown ones."""
    job_id = call.path["job_id"]
    if not _is_job_id(job_id):
        raise job_not_found(job_id)
    return job_id


def _receipt_response(created: CreatedJob) -> Response:
    return Reply(202, created.receipt, _REPLAYED if created.replayed else ())


async def _wait(call: Call, job_id: str, query: JobQuery) -> JobView:
    context, organization_id = call.context.jobs, call.caller.organization_id
    seconds, until_final = query.wait_seconds, query.wait_for == "final"
    job = await long_poll(
        call,
        lambda: wait_for_change(context, organization_id, job_id, seconds, until_final=until_final),
    )
    return await queries.get_job(context, organization_id, job_id) if job is None else job

"""The operations on jobs, their results and their events."""

import msgspec

from agentjobs.jobs.model import CreateJobRequest, JobView, Receipt
from agentjobs.jobs.operations.follow_up import FollowUpRequest
from agentjobs.jobs.operations.retry import RetryRequest
from agentjobs.web.api import (
    artifacts,
    diff,
    events,
    examples,
    idempotency,
    job_list,
    jobs,
    logs,
    steps,
)
from agentjobs.web.api.operation import Operation, Parameter, SuccessResponse
from agentjobs_runtime.tracing import trace_context

_IDEMPOTENCY_KEY = Parameter(
    name=idempotency.HEADER,
    where="header",
    description="A key of your choice for this request. Repeating the request with the same key "
    "returns the first response with `Idempotent-Replay: true` and creates no second job. Keys are "
    "kept for 24 hours.",
    schema={"type": "string", "pattern": idempotency.PATTERN},
    example="SHOP-1234-lint-1",
)
# Without a pattern: a malformed value is ignored, as the specification says.
_TRACEPARENT = Parameter(
    name=trace_context.HEADER,
    where="header",
    description="The caller's trace, as in W3C Trace Context. The job belongs to it, and its "
    "webhooks and its agent get it.",
    schema={"type": "string"},
    example=examples.TRACEPARENT,
)
_CREATION_HEADERS = (_IDEMPOTENCY_KEY, _TRACEPARENT)
_JOB_QUEUED = SuccessResponse(
    "The job is queued.",
    Receipt,
    status=202,
    headers={"Idempotent-Replay": "`true` when this repeats the response to an earlier request."},
)
_LAST_EVENT_ID = Parameter(
    name="Last-Event-ID",
    where="header",
    description="The id of the last event received; the stream continues after it.",
    schema={"type": "integer", "minimum": 0, "maximum": logs.MAX_SEQUENCE},
    example=41,
)
_CREATION_ERRORS = (
    "repo_not_connected",
    "unknown_agent",
    "plan_required",
    "repo_indexing",
    "queue_full",
    "idempotency_key_reused",
    "idempotency_in_progress",
)

JOB_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/jobs",
        handler=jobs.create,
        id="createJob",
        summary="Create a job",
        description="Queues a job: the agent runs on a fresh checkout of the repository, and "
        "its changes are opened as a pull request. Unknown fields are ignored; `warnings` names "
        "them.",
        parameters=_CREATION_HEADERS,
        request=CreateJobRequest,
        request_example=examples.CREATE_JOB,
        response=_JOB_QUEUED,
        errors=_CREATION_ERRORS,
    ),
    Operation(
        path="/jobs",
        handler=job_list.list_all,
        id="listJobs",
        summary="List jobs",
        description="The organization's jobs, newest first. A job is listed if all filters match.",
        query=job_list.JobListQuery,
        response=SuccessResponse("A page of jobs.", job_list.JobList),
    ),
    Operation(
        path="/jobs/{job_id}",
        handler=jobs.show,
        id="getJob",
        summary="Show a job",
        description="Status, pull request and timing of a job. With `wait_seconds` the response "
        "is sent when the status changes, or after that time; with `wait_for=final`, only when the "
        "job has finished, or after that time.",
        query=jobs.JobQuery,
        response=SuccessResponse("The job.", JobView),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/cancel",
        handler=jobs.cancel,
        id="cancelJob",
        summary="Cancel a job",
        description="A queued job is cancelled immediately. The agent of a running job is stopped "
        "within a second; the job is `cancelled` once it has stopped.",
        response=SuccessResponse(
            "The job as it is now.", JobView, example_fields={"status": "cancelled"}, status=202
        ),
        errors=("job_finished",),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/retry",
        handler=jobs.retry,
        id="retryJob",
        summary="Run a finished job again",
        description="Queues a new job with the request of a completed, failed or cancelled one: "
        "repository, agent, ticket, overrides and labels. A follow-up is repeated as a follow-up "
        "on the same pull request. The body may be empty.",
        parameters=_CREATION_HEADERS,
        request=RetryRequest,
        request_example=examples.RETRY,
        response=msgspec.structs.replace(_JOB_QUEUED, description="The new job is queued."),
        errors=("job_not_finished", "pull_not_open", "follow_up_active", *_CREATION_ERRORS),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/follow-ups",
        handler=jobs.follow_up,
        id="followUpJob",
        summary="Follow up on a job's pull request",
        description="Queues a job that starts from the branch of a completed job and adds a "
        "commit to its pull request, which must still be open. It keeps the repository and the "
        "ticket of that job, and its agent, priority and labels unless others are named. Only one "
        "job at a time works on a pull request.",
        parameters=_CREATION_HEADERS,
        request=FollowUpRequest,
        request_example=examples.FOLLOW_UP,
        response=_JOB_QUEUED,
        errors=("pull_not_open", "follow_up_active", *_CREATION_ERRORS),
    ),
    Operation(
        path="/jobs/{job_id}/logs",
        handler=logs.show,
        id="getJobLogs",
        summary="Read a job's log",
        description="The agent's output as text. With `Accept: text/event-stream` the log is "
        "streamed as server-sent events. To resume the stream, send the `id` of the last event as "
        "`Last-Event-ID`. `event: end` with the job's status follows when the job is finished and "
        "the whole log was sent.",
        parameters=(_LAST_EVENT_ID,),
        query=logs.LogQuery,
        response=SuccessResponse(
            "The log.",
            texts={"text/plain": examples.LOG_TEXT, logs.EVENT_STREAM: examples.LOG_EVENTS},
            headers={"X-Log-Truncated": "With `tail_bytes`, whether the log has more than that."},
        ),
    ),
    Operation(
        path="/jobs/{job_id}/steps",
        handler=steps.list_all,
        id="listJobSteps",
        summary="List a job's steps",
        description="What the agent of the latest attempt did: files read and changed, commands, "
        "messages and model calls, at most 2,000. Agents that report no steps have only their "
        "model calls. To follow a running job, continue with the last `sequence` as `after`. "
        "Titles and details are what an agent wrote: do not trust them.",
        query=steps.StepQuery,
        response=SuccessResponse("A page of steps.", steps.StepList),
    ),
    Operation(
        path="/jobs/{job_id}/prompt",
        handler=jobs.show_prompt,
        id="getJobPrompt",
        summary="Read a job's prompt",
        description="The prompt of the job's latest attempt; null before the agent was started.",
        response=SuccessResponse("The prompt.", jobs.PromptView),
    ),
    Operation(
        path="/jobs/{job_id}/events",
        handler=jobs.list_events,
        id="listJobEvents",
        summary="List a job's events",
        description="Every change of the job's state, oldest first, with the payload that is "
        "sent to webhook endpoints.",
        response=SuccessResponse("The events.", jobs.EventList),
    ),
    Operation(
        path="/jobs/{job_id}/diff",
        handler=diff.show,
        id="getJobDiff",
        summary="Read a job's diff",
        description="What the job changed, as soon as its commit exists: a unified diff, or its "
        "files with `Accept: application/json`. A diff of more than 1 MiB is cut, between two "
        "files if possible; `X-Diff-Truncated: true` and `truncated` say so.",
        response=SuccessResponse(
            "The diff.",
            diff.DiffView,
            texts={diff.DIFF_TEXT: examples.DIFF_TEXT, "text/plain": examples.DIFF_TEXT},
            headers={"X-Diff-Truncated": "`true` when the text is cut."},
        ),
        errors=("diff_not_available",),
    ),
    Operation(
        path="/events",
        handler=events.list_all,
        id="listEvents",
        summary="List the organization's events",
        description="The events of all jobs, oldest first, with the payloads that are sent to "
        "webhook endpoints. Continue with `next_cursor`, also after the last page: no event is "
        "skipped or repeated, and the events of a job come in their order. With `wait_seconds` "
        "the response is sent when there is an event, or after that time. Events of deleted jobs "
        "are not listed.",
        query=events.EventQuery,
        response=SuccessResponse("A page of events.", events.EventPage),
    ),
    Operation(
        path="/jobs/{job_id}/artifacts",
        handler=artifacts.list_all,
        id="listJobArtifacts",
        summary="List a job's artifacts",
        description="The files that the job's agent left in the directory `AGENTJOBS_ARTIFACTS`, "
        "whether or not it succeeded: at most 50, of 10 MiB each and 32 MiB in total. The job's "
        "`warnings` name what was left out.",
        response=SuccessResponse("The artifacts.", artifacts.ArtifactList),
    ),
    Operation(
        path="/jobs/{job_id}/artifacts/{name}",
        handler=artifacts.show,
        id="getJobArtifact",
        summary="Download an artifact",
        description="The content of an artifact. An agent wrote it: do not trust it.",
        response=SuccessResponse(
            "The content, with the media type that the list names.",
            texts={"*/*": "92 % of 1,204 lines\n"},
        ),
    ),
)

"""The table of the API: every operation of v1, and the routes made from it."""

from starlette.routing import BaseRoute, Route

from agentjobs.jobs.follow_up import FollowUpRequest
from agentjobs.jobs.model import CreateJobRequest, JobView, Receipt
from agentjobs.jobs.states import STATUSES
from agentjobs.settings.registries import ECOSYSTEMS
from agentjobs.web.api import (
    agents,
    dependencies,
    examples,
    idempotency,
    jobs,
    logs,
    pagination,
    repos,
)
from agentjobs.web.api.endpoint import Endpoint, Handler
from agentjobs.web.api.operation import Answer, Operation, Parameter
from agentjobs.web.api.rate_limit import RateLimiter
from agentjobs.web.context import WebContext

BASE = "/v1"

_JOB_ID = Parameter(
    name="job_id",
    where="path",
    description="The job's identifier.",
    schema={"type": "string", "pattern": jobs.JOB_ID_PATTERN},
    example=examples.JOB_ID,
)
_REPO_ID = Parameter(
    name="repo_id",
    where="path",
    description="The repository's identifier.",
    schema={"type": "string", "pattern": dependencies.REPO_ID_PATTERN},
    example=examples.REPO_ID,
)
_CURSOR = Parameter(
    name="cursor",
    where="query",
    description="A `next_cursor` of this listing: the page that follows it.",
    schema={
        "type": "string",
        "minLength": 1,
        "maxLength": pagination.MOST_CURSOR_LENGTH,
        "pattern": "^[A-Za-z0-9_-]+$",
    },
)
_IDEMPOTENCY_KEY = Parameter(
    name=idempotency.HEADER,
    where="header",
    description="A key of your own for this request. The same request with the same key is "
    "answered again, with `Idempotent-Replay: true`, and makes no second job. Kept for 24 hours.",
    schema={"type": "string", "pattern": idempotency.PATTERN},
)
_REPLAY = {"Idempotent-Replay": "`true` when this is the answer to an earlier request."}
_LAST_EVENT_ID = Parameter(
    name="Last-Event-ID",
    where="header",
    description="The id of the last event received: the stream goes on after it.",
    schema={"type": "integer", "minimum": 0, "maximum": logs.MOST_SEQUENCE},
)
_TIMESTAMPS = Parameter(
    name="timestamps",
    where="query",
    description="With `true` every line begins with the time it was written, in UTC.",
    schema={"type": "boolean", "default": False},
)


def _limit(most: int, default: int | None = None) -> Parameter:
    schema = {"type": "integer", "minimum": 1, "maximum": most}
    without = "everything" if default is None else f"{default}"
    return Parameter(
        name="limit",
        where="query",
        description=f"At most this many; without it {without}.",
        schema=schema if default is None else {**schema, "default": default},
    )


def _filter(name: str, description: str) -> Parameter:
    text = {"type": "string", "minLength": 1, "maxLength": jobs.MOST_NAME_LENGTH}
    schema = {**text, "pattern": "^[^\\x00]*$"}
    return Parameter(name=name, where="query", description=description, schema=schema)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/jobs/{job_id}",
        handler=jobs.show,
        id="getJob",
        tag="Jobs",
        summary="Show a job",
        description="Status, pull request and timing of a job. With `wait_seconds` the answer "
        "comes as soon as the status changes, or after that time.",
        parameters=(
            _JOB_ID,
            Parameter(
                name="wait_seconds",
                where="query",
                description="How long to wait for the status to change.",
                schema={
                    "type": "integer",
                    "minimum": 0,
                    "maximum": jobs.MOST_WAIT_SECONDS,
                    "default": 0,
                },
            ),
        ),
        answer=Answer(status=200, description="The job.", type=JobView, example=examples.JOB),
        errors=("job_not_found", "validation_failed"),
    ),
    Operation(
        method="POST",
        path="/jobs",
        handler=jobs.create,
        id="createJob",
        tag="Jobs",
        summary="Create a job",
        description="Queues a job: the agent runs on a fresh checkout of the repository and, if "
        "it changes something, a pull request is opened. Unknown fields are ignored.",
        parameters=(_IDEMPOTENCY_KEY,),
        request=CreateJobRequest,
        request_example=examples.CREATE_JOB,
        answer=Answer(
            status=202,
            description="The job is queued.",
            type=Receipt,
            example=examples.RECEIPT,
            headers=_REPLAY,
        ),
        errors=(
            "insufficient_scope",
            "unsupported_media_type",
            "payload_too_large",
            "request_timeout",
            "invalid_json",
            "validation_failed",
            "repo_not_connected",
            "unknown_agent",
            "plan_required",
            "repo_indexing",
            "queue_full",
            "idempotency_key_reused",
            "idempotency_in_progress",
        ),
    ),
    Operation(
        method="GET",
        path="/jobs",
        handler=jobs.list_all,
        id="listJobs",
        tag="Jobs",
        summary="List jobs",
        description="The organization's jobs, newest first.",
        parameters=(
            Parameter(
                name="status",
                where="query",
                description="Only jobs in this status.",
                schema={"type": "string", "enum": list(STATUSES)},
            ),
            _filter("repo", "Only jobs of the repository with this full name."),
            _filter("agent", "Only jobs of the agent with this id."),
            _limit(jobs.MOST_LIMIT, jobs.DEFAULT_LIMIT),
            _CURSOR,
        ),
        answer=Answer(
            status=200,
            description="A page of jobs.",
            type=jobs.JobList,
            example=examples.JOBS,
        ),
        errors=("validation_failed",),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/cancel",
        handler=jobs.cancel,
        id="cancelJob",
        tag="Jobs",
        summary="Cancel a job",
        description="A queued job is cancelled at once; the agent of a running one is stopped "
        "within a second, and the job is shown as `cancelled` then.",
        parameters=(_JOB_ID,),
        answer=Answer(
            status=202,
            description="The job as it is now.",
            type=JobView,
            example=examples.CANCELLED_JOB,
        ),
        errors=("insufficient_scope", "job_not_found", "job_finished"),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/follow-ups",
        handler=jobs.follow_up,
        id="followUpJob",
        tag="Jobs",
        summary="Go on with a job's pull request",
        description="Queues a job that starts from the branch of a completed job and adds a "
        "commit to its pull request, which must still be open. The repository and the ticket stay "
        "the same, and so does the agent unless another is named. Only one job at a time works on "
        "a pull request.",
        parameters=(_JOB_ID, _IDEMPOTENCY_KEY),
        request=FollowUpRequest,
        request_example=examples.FOLLOW_UP,
        answer=Answer(
            status=202,
            description="The job is queued.",
            type=Receipt,
            example=examples.RECEIPT,
            headers=_REPLAY,
        ),
        errors=(
            "insufficient_scope",
            "job_not_found",
            "unsupported_media_type",
            "payload_too_large",
            "request_timeout",
            "invalid_json",
            "validation_failed",
            "pull_not_open",
            "follow_up_active",
            "repo_not_connected",
            "unknown_agent",
            "plan_required",
            "repo_indexing",
            "queue_full",
            "idempotency_key_reused",
            "idempotency_in_progress",
        ),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/logs",
        handler=logs.show,
        id="getJobLogs",
        tag="Jobs",
        summary="Read a job's log",
        description="What the agent wrote, as text. With `Accept: text/event-stream` the log is "
        "followed as server-sent events: one per piece of log, its `id` usable as "
        "`Last-Event-ID` to go on after it, and `event: end` with the job's status when it is "
        "finished and all was sent.",
        parameters=(_JOB_ID, _TIMESTAMPS, _LAST_EVENT_ID),
        answer=Answer(
            status=200,
            description="The log.",
            texts={"text/plain": examples.LOG_TEXT, logs.EVENT_STREAM: examples.LOG_EVENTS},
        ),
        errors=("job_not_found", "validation_failed"),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/prompt",
        handler=jobs.show_prompt,
        id="getJobPrompt",
        tag="Jobs",
        summary="Read what the agent was told",
        description="The prompt of the job's latest attempt; null before the agent was started.",
        parameters=(_JOB_ID,),
        answer=Answer(
            status=200,
            description="The prompt.",
            type=jobs.PromptView,
            example=examples.PROMPT,
        ),
        errors=("job_not_found",),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/events",
        handler=jobs.list_events,
        id="listJobEvents",
        tag="Jobs",
        summary="List a job's events",
        description="Every change of the job's state, oldest first, with the payload that is "
        "sent to webhook endpoints.",
        parameters=(_JOB_ID,),
        answer=Answer(
            status=200,
            description="The events.",
            type=jobs.EventList,
            example=examples.EVENTS,
        ),
        errors=("job_not_found",),
    ),
    Operation(
        method="GET",
        path="/agents",
        handler=agents.list_all,
        id="listAgents",
        tag="Agents",
        summary="List agents",
        description="Every agent type there is, and whether the organization's plan allows it.",
        parameters=(_limit(agents.MOST_LIMIT), _CURSOR),
        answer=Answer(
            status=200,
            description="The agents.",
            type=agents.AgentList,
            example=examples.AGENTS,
        ),
        errors=("validation_failed",),
    ),
    Operation(
        method="GET",
        path="/repos",
        handler=repos.list_all,
        id="listRepos",
        tag="Repositories",
        summary="List repositories",
        description="The connected repositories. Only one whose `index_status` is `ready` "
        "accepts jobs.",
        parameters=(_limit(repos.MOST_LIMIT), _CURSOR),
        answer=Answer(
            status=200,
            description="The repositories.",
            type=repos.RepoList,
            example=examples.REPOS,
        ),
        errors=("validation_failed",),
    ),
    Operation(
        method="GET",
        path="/repos/{repo_id}/dependencies",
        handler=dependencies.list_all,
        id="listDependencies",
        tag="Repositories",
        summary="List a repository's dependencies",
        description="The packages that manifests and lock files of the indexed commit lead to, "
        "direct and transitive, in the order of the index: by manifest, direct ones first. Each "
        "has the advisories that the last scan found for it, the worst first.",
        parameters=(
            _REPO_ID,
            Parameter(
                name="ecosystem",
                where="query",
                description="Only packages of this ecosystem.",
                schema={"type": "string", "enum": list(ECOSYSTEMS)},
            ),
            Parameter(
                name="direct",
                where="query",
                description="With `true` only what the repository itself asks for, with `false` "
                "only what others bring along.",
                schema={"type": "boolean"},
            ),
            Parameter(
                name="vulnerable",
                where="query",
                description="With `true` only packages with advisories.",
                schema={"type": "boolean", "default": False},
            ),
            _filter("search", "Only packages with this in their name, in any case."),
            _limit(dependencies.MOST_LIMIT, dependencies.DEFAULT_LIMIT),
            _CURSOR,
        ),
        answer=Answer(
            status=200,
            description="A page of dependencies.",
            type=dependencies.DependencyList,
            example=examples.DEPENDENCIES,
        ),
        errors=("validation_failed", "repo_not_found", "repo_indexing"),
    ),
)


def routes(context: WebContext) -> list[BaseRoute]:
    """One route per address, in the table's order: the one asked for most comes first."""
    settings = context.settings
    limiter = RateLimiter(settings.rate_limit_per_second, settings.rate_limit_burst)
    handlers: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        handlers.setdefault(operation.path, {})[operation.method] = operation.handler
    return [
        Route(BASE + path, Endpoint(context, limiter, methods))
        for path, methods in handlers.items()
    ]

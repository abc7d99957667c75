"""Every operation of v1, and the routes made from them."""

from starlette.routing import Route

from agentjobs.identifiers import id_pattern
from agentjobs.jobs.follow_up import FollowUpRequest
from agentjobs.jobs.model import CreateJobRequest, JobView, Receipt
from agentjobs.jobs.rerun import RetryRequest
from agentjobs.pulls.pulls import ID_PATTERN
from agentjobs.repos.queries import RepoView
from agentjobs.web.api import (
    agents,
    artifacts,
    dependencies,
    diff,
    events,
    examples,
    idempotency,
    job_list,
    jobs,
    logs,
    me,
    pagination,
    pulls,
    repos,
    usage,
)
from agentjobs.web.api.deprecation import add_deprecation
from agentjobs.web.api.endpoint import Endpoint, Method
from agentjobs.web.api.operation import Operation, Parameter, SuccessResponse
from agentjobs.web.context import WebContext

BASE = "/v1"

_JOB_ID = Parameter(
    name="job_id",
    where="path",
    description="The job's identifier.",
    schema={"type": "string", "pattern": id_pattern("job")},
    example=examples.JOB_ID,
)
_REPO_ID = Parameter(
    name="repo_id",
    where="path",
    description="The repository's identifier.",
    schema={"type": "string", "pattern": id_pattern("repo")},
    example=examples.REPO_ID,
)
_REPO = Parameter(
    name="repo_id",
    where="path",
    description="The repository's identifier or full name. The slashes of a full name may be "
    "percent-encoded.",
    schema={"type": "string", "minLength": 1},
    example="acme/shop",
    spans_segments=True,
)
_PULL_ID = Parameter(
    name="pull_id",
    where="path",
    description="The pull request's identifier.",
    schema={"type": "string", "pattern": ID_PATTERN},
    example=examples.PULL_ID,
)
_AGENT_ID = Parameter(
    name="agent_id",
    where="path",
    description="The agent's identifier.",
    schema={"type": "string"},
    example="lint-fixer",
)
_ARTIFACT_NAME = Parameter(
    name="name",
    where="path",
    description="The artifact's name.",
    schema={"type": "string", "pattern": artifacts.NAME_PATTERN},
    example="coverage.txt",
)
_IDEMPOTENCY_KEY = Parameter(
    name=idempotency.HEADER,
    where="header",
    description="A key of your choice for this request. Repeating the request with the same key "
    "returns the first response with `Idempotent-Replay: true` and creates no second job. Keys are "
    "kept for 24 hours.",
    schema={"type": "string", "pattern": idempotency.PATTERN},
    example="SHOP-1234-lint-1",
)
_REPLAY = {"Idempotent-Replay": "`true` when this repeats the response to an earlier request."}
_LAST_EVENT_ID = Parameter(
    name="Last-Event-ID",
    where="header",
    description="The id of the last event received; the stream continues after it.",
    schema={"type": "integer", "minimum": 0, "maximum": logs.MAX_SEQUENCE},
    example=41,
)
_CREATION_ERRORS = (
    "insufficient_scope",
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
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/jobs/{job_id}",
        handler=jobs.show,
        id="getJob",
        tag="Jobs",
        summary="Show a job",
        description="Status, pull request and timing of a job. With `wait_seconds` the response "
        "is sent when the status changes, or after that time; with `wait_for=final`, only when the "
        "job has finished, or after that time.",
        parameters=(_JOB_ID,),
        query=jobs.JobQuery,
        response=SuccessResponse(
            status=200, description="The job.", type=JobView, example=examples.JOB
        ),
        errors=("job_not_found", "validation_failed"),
    ),
    Operation(
        method="POST",
        path="/jobs",
        handler=jobs.create,
        id="createJob",
        tag="Jobs",
        summary="Create a job",
        description="Queues a job: the agent runs on a fresh checkout of the repository, and "
        "its changes are opened as a pull request. Unknown fields are ignored; `warnings` names "
        "them.",
        parameters=(_IDEMPOTENCY_KEY,),
        request=CreateJobRequest,
        request_example=examples.CREATE_JOB,
        response=SuccessResponse(
            status=202,
            description="The job is queued.",
            type=Receipt,
            example=examples.RECEIPT,
            headers=_REPLAY,
        ),
        errors=_CREATION_ERRORS,
    ),
    Operation(
        method="GET",
        path="/jobs",
        handler=job_list.list_all,
        id="listJobs",
        tag="Jobs",
        summary="List jobs",
        description="The organization's jobs, newest first. A job is listed if all filters match.",
        query=job_list.JobListQuery,
        response=SuccessResponse(
            status=200,
            description="A page of jobs.",
            type=job_list.JobList,
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
        description="A queued job is cancelled immediately. The agent of a running job is stopped "
        "within a second; the job is `cancelled` once it has stopped.",
        parameters=(_JOB_ID,),
        response=SuccessResponse(
            status=202,
            description="The job as it is now.",
            type=JobView,
            example=examples.CANCELLED_JOB,
        ),
        errors=("insufficient_scope", "job_not_found", "job_finished"),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/retry",
        handler=jobs.retry,
        id="retryJob",
        tag="Jobs",
        summary="Run a finished job again",
        description="Queues a new job with the request of a completed, failed or cancelled one: "
        "repository, agent, ticket, overrides and labels. A follow-up is repeated as a follow-up "
        "on the same pull request. The body may be empty.",
        parameters=(_JOB_ID, _IDEMPOTENCY_KEY),
        request=RetryRequest,
        request_example=examples.RETRY,
        response=SuccessResponse(
            status=202,
            description="The new job is queued.",
            type=Receipt,
            example=examples.RECEIPT,
            headers=_REPLAY,
        ),
        errors=(
            *("job_not_found", "job_not_finished", "pull_not_open", "follow_up_active"),
            *_CREATION_ERRORS,
        ),
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}/follow-ups",
        handler=jobs.follow_up,
        id="followUpJob",
        tag="Jobs",
        summary="Follow up on a job's pull request",
        description="Queues a job that starts from the branch of a completed job and adds a "
        "commit to its pull request, which must still be open. It keeps the repository and the "
        "ticket of that job, and its agent, priority and labels unless others are named. Only one "
        "job at a time works on a pull request.",
        parameters=(_JOB_ID, _IDEMPOTENCY_KEY),
        request=FollowUpRequest,
        request_example=examples.FOLLOW_UP,
        response=SuccessResponse(
            status=202,
            description="The job is queued.",
            type=Receipt,
            example=examples.RECEIPT,
            headers=_REPLAY,
        ),
        errors=("job_not_found", "pull_not_open", "follow_up_active", *_CREATION_ERRORS),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/logs",
        handler=logs.show,
        id="getJobLogs",
        tag="Jobs",
        summary="Read a job's log",
        description="The agent's output as text. With `Accept: text/event-stream` the log is "
        "streamed as server-sent events. To resume the stream, send the `id` of the last event as "
        "`Last-Event-ID`. `event: end` with the job's status follows when the job is finished and "
        "the whole log was sent.",
        parameters=(_JOB_ID, _LAST_EVENT_ID),
        query=logs.LogQuery,
        response=SuccessResponse(
            status=200,
            description="The log.",
            texts={"text/plain": examples.LOG_TEXT, logs.EVENT_STREAM: examples.LOG_EVENTS},
            headers={"X-Log-Truncated": "With `tail_bytes`, whether the log has more than that."},
        ),
        errors=("job_not_found", "validation_failed"),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/prompt",
        handler=jobs.show_prompt,
        id="getJobPrompt",
        tag="Jobs",
        summary="Read a job's prompt",
        description="The prompt of the job's latest attempt; null before the agent was started.",
        parameters=(_JOB_ID,),
        response=SuccessResponse(
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
        response=SuccessResponse(
            status=200,
            description="The events.",
            type=jobs.EventList,
            example=examples.EVENTS,
        ),
        errors=("job_not_found",),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/diff",
        handler=diff.show,
        id="getJobDiff",
        tag="Jobs",
        summary="Read a job's diff",
        description="What the job changed, as soon as its commit exists: a unified diff, or its "
        "files with `Accept: application/json`. A diff of more than 1 MiB is cut, between two "
        "files if possible; `X-Diff-Truncated: true` and `truncated` say so.",
        parameters=(_JOB_ID,),
        response=SuccessResponse(
            status=200,
            description="The diff.",
            type=diff.DiffView,
            example=examples.DIFF,
            texts={diff.DIFF_TEXT: examples.DIFF_TEXT, "text/plain": examples.DIFF_TEXT},
            headers={"X-Diff-Truncated": "`true` when the text is cut."},
        ),
        errors=("job_not_found", "diff_not_available"),
    ),
    Operation(
        method="GET",
        path="/events",
        handler=events.list_all,
        id="listEvents",
        tag="Events",
        summary="List the organization's events",
        description="The events of all jobs, oldest first, with the payloads that are sent to "
        "webhook endpoints. Continue with `next_cursor`, also after the last page: no event is "
        "skipped or repeated, and the events of a job come in their order. With `wait_seconds` "
        "the response is sent when there is an event, or after that time. Events of deleted jobs "
        "are not listed.",
        query=events.EventQuery,
        response=SuccessResponse(
            status=200,
            description="A page of events.",
            type=events.EventPage,
            example=examples.EVENT_PAGE,
        ),
        errors=("validation_failed",),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/artifacts",
        handler=artifacts.list_all,
        id="listJobArtifacts",
        tag="Jobs",
        summary="List a job's artifacts",
        description="The files that the job's agent left in the directory `AGENTJOBS_ARTIFACTS`, "
        "whether or not it succeeded: at most 50, of 10 MiB each and 32 MiB in total. The job's "
        "`warnings` name what was left out.",
        parameters=(_JOB_ID,),
        response=SuccessResponse(
            status=200,
            description="The artifacts.",
            type=artifacts.ArtifactList,
            example=examples.ARTIFACTS,
        ),
        errors=("job_not_found",),
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/artifacts/{name}",
        handler=artifacts.show,
        id="getJobArtifact",
        tag="Jobs",
        summary="Download an artifact",
        description="The content of an artifact. An agent wrote it: do not trust it.",
        parameters=(_JOB_ID, _ARTIFACT_NAME),
        response=SuccessResponse(
            status=200,
            description="The content, with the media type that the list names.",
            texts={"*/*": "92 % of 1,204 lines\n"},
        ),
        errors=("job_not_found", "artifact_not_found"),
    ),
    Operation(
        method="GET",
        path="/pulls",
        handler=pulls.list_all,
        id="listPulls",
        tag="Pull requests",
        summary="List pull requests",
        description="Pull requests that jobs opened, newest first.",
        query=pulls.PullQuery,
        response=SuccessResponse(
            status=200,
            description="A page of pull requests.",
            type=pulls.PullList,
            example=examples.PULLS,
        ),
        errors=("validation_failed", "repo_not_found"),
    ),
    Operation(
        method="GET",
        path="/pulls/{pull_id}",
        handler=pulls.show,
        id="getPull",
        tag="Pull requests",
        summary="Show a pull request",
        description="A pull request that a job opened. Its state on a platform is as of the last "
        "synchronization.",
        parameters=(_PULL_ID,),
        response=SuccessResponse(
            status=200,
            description="The pull request.",
            type=pulls.PullView,
            example=examples.PULL,
        ),
        errors=("pull_not_found",),
    ),
    Operation(
        method="POST",
        path="/pulls/{pull_id}/merge",
        handler=pulls.merge,
        id="mergePull",
        tag="Pull requests",
        summary="Merge a pull request",
        description="Merges it into its base branch, here or on its platform. The API key needs "
        "the scope `pulls`.",
        parameters=(_PULL_ID,),
        request=pulls.MergePullRequest,
        request_example=examples.MERGE_PULL,
        write_scope="pulls",
        response=SuccessResponse(
            status=200,
            description="The merged pull request.",
            type=pulls.PullView,
            example=examples.MERGED_PULL,
        ),
        errors=(
            "insufficient_scope",
            "payload_too_large",
            "request_timeout",
            "invalid_json",
            "validation_failed",
            "pull_not_found",
            "pull_not_open",
            "pull_changed",
            "pull_not_mergeable",
            "forge_unavailable",
        ),
    ),
    Operation(
        method="POST",
        path="/pulls/{pull_id}/close",
        handler=pulls.close,
        id="closePull",
        tag="Pull requests",
        summary="Close a pull request",
        description="Closes it without merging, here or on its platform. The API key needs the "
        "scope `pulls`.",
        parameters=(_PULL_ID,),
        write_scope="pulls",
        response=SuccessResponse(
            status=200,
            description="The closed pull request.",
            type=pulls.PullView,
            example=examples.CLOSED_PULL,
        ),
        errors=(
            "insufficient_scope",
            "pull_not_found",
            "pull_not_open",
            "pull_not_mergeable",
            "forge_unavailable",
        ),
    ),
    Operation(
        method="GET",
        path="/agents",
        handler=agents.list_all,
        id="listAgents",
        tag="Agents",
        summary="List agents",
        description="Every enabled agent type, and whether the organization's plan allows it.",
        query=pagination.PageQuery,
        response=SuccessResponse(
            status=200,
            description="The agents.",
            type=agents.AgentList,
            example=examples.AGENTS,
        ),
        errors=("validation_failed",),
    ),
    Operation(
        method="GET",
        path="/agents/{agent_id}",
        handler=agents.show,
        id="getAgent",
        tag="Agents",
        summary="Show an agent",
        description="What an agent does, its limits, and what `config_override` may contain when "
        "you create a job with it.",
        parameters=(_AGENT_ID,),
        response=SuccessResponse(
            status=200,
            description="The agent.",
            type=agents.AgentDetails,
            example=examples.AGENT_DETAILS,
        ),
        errors=("agent_not_found",),
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
        query=pagination.PageQuery,
        response=SuccessResponse(
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
        description="Direct and transitive dependencies from the manifests and lock files of the "
        "indexed commit, ordered by manifest, direct ones first. Each one lists the advisories "
        "that the last scan found for it, most severe first.",
        parameters=(_REPO_ID,),
        query=dependencies.DependencyQuery,
        response=SuccessResponse(
            status=200,
            description="A page of dependencies.",
            type=dependencies.DependencyList,
            example=examples.DEPENDENCIES,
        ),
        errors=("validation_failed", "repo_not_found", "repo_indexing"),
    ),
    # After the other paths of a repository, because the name of a repository contains slashes.
    Operation(
        method="GET",
        path="/repos/{repo_id}",
        handler=repos.show,
        id="getRepo",
        tag="Repositories",
        summary="Show a repository",
        description="A connected repository, by its identifier or its full name.",
        parameters=(_REPO,),
        response=SuccessResponse(
            status=200,
            description="The repository.",
            type=RepoView,
            example=examples.REPO,
        ),
        errors=("repo_not_found",),
    ),
    Operation(
        method="GET",
        path="/me",
        handler=me.show,
        id="getCaller",
        tag="Organization",
        summary="Show the API key and its organization",
        description="Whose key this is, what it may do, and the limits that apply to it.",
        response=SuccessResponse(
            status=200,
            description="The key, its organization, plan and limits.",
            type=me.CallerView,
            example=examples.CALLER,
        ),
    ),
    Operation(
        method="GET",
        path="/usage",
        handler=usage.show,
        id="getUsage",
        tag="Organization",
        summary="Show what jobs used",
        description="How many jobs were created in a period, how long their agents ran, and what "
        "their models cost. Jobs count in the period in which they were created, until the "
        "service deletes them (after a year by default).",
        query=usage.UsageQuery,
        response=SuccessResponse(
            status=200,
            description="The sums.",
            type=usage.UsageReport,
            example=examples.USAGE,
        ),
        errors=("validation_failed",),
    ),
)


def routes(context: WebContext, operations: tuple[Operation, ...] = OPERATIONS) -> list[Route]:
    """One route per path; the most frequent path comes first."""
    paths: dict[str, dict[str, Method]] = {}
    for each in operations:
        link = f"{BASE}/docs#{each.id}"
        handler = add_deprecation(each.handler, link, each.deprecation, each.deprecated_parameters)
        method = Method(handler, each.scope, each.query, each.request)
        paths.setdefault(each.route_path, {})[each.method] = method
    return [
        Route(BASE + path, Endpoint(context, context.rate_limiter, methods))
        for path, methods in paths.items()
    ]

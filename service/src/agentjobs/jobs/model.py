"""Requests and responses about jobs: their fields, descriptions and constraints. No behavior."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from msgspec import Meta

from agentjobs.jobs.phases import PhaseView
from agentjobs.jobs.states import RETRYABLE, JobStatus
from agentjobs.webhooks.events import EVENTS
from agentjobs_runtime.environments.records import EnvironmentView
from agentjobs_runtime.git.remote import INVALID_BRANCH_NAME
from agentjobs_runtime.identifiers import id_pattern
from agentjobs_runtime.json_fields import (
    CONTROL_CHARACTERS,
    NOT_BLANK,
    NULL_CHARACTERS,
    UNPRINTABLE_CHARACTERS,
    Count,
    Rule,
    Timestamp,
    Url,
    doc,
    known_values,
    select_fields,
    text,
)
from agentjobs_runtime.protocol.cause import Cause
from agentjobs_runtime.protocol.verification import Verification

SEVERITIES = ("low", "medium", "moderate", "high", "critical", "none")
MAX_OVERRIDE_BYTES = 16 * 1024
MAX_LABELS = 16

_IN_ANY_CASE = "|".join("".join(f"[{c}{c.upper()}]" for c in name) for name in SEVERITIES)

JobId = Annotated[str, Meta(description="Job identifier.", pattern=id_pattern("job"))]
RepoName = Annotated[
    str,
    text(
        "Repository full name, form `<owner>/<name>`; on GitLab, groups may be nested.",
        max_length=500,
        matching=Rule(
            "^[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.-]{1,255}){1,20}$",
            "must have the form <owner>/<name>",
        ),
        without=CONTROL_CHARACTERS,
    ),
]
AgentId = Annotated[str, text(max_length=64, matching=NOT_BLANK, without=CONTROL_CHARACTERS)]
TicketId = Annotated[str, text(max_length=255, matching=NOT_BLANK, without=CONTROL_CHARACTERS)]
Severity = Annotated[
    str,
    text(
        f"The severity threshold: {', '.join(SEVERITIES)}; case-insensitive.",
        matching=Rule(f"^({_IN_ANY_CASE})$", f"must be one of {', '.join(SEVERITIES)}"),
        without=CONTROL_CHARACTERS,
    ),
]
Prompt = Annotated[str, text(matching=NOT_BLANK, without=NULL_CHARACTERS)]
TimeoutSeconds = Annotated[
    int,
    Meta(
        description="The agent is stopped after this time; it may only be lower than the agent's"
        " own limit.",
        ge=1,
        le=7 * 86_400,
    ),
]
MaxCostUsd = Annotated[
    float,
    Meta(description="The agent is stopped when it has spent this much.", gt=0, le=1_000_000),
]

Priority = Literal["low", "normal", "high"]
LabelKey = Annotated[
    str,
    text(
        matching=Rule(
            "^[a-zA-Z0-9][a-zA-Z0-9._/-]{0,62}$",
            "must have a key of at most 63 letters, digits and `._/-`, a letter or digit first",
        )
    ),
]
LabelValue = Annotated[str, text(max_length=255, without=UNPRINTABLE_CHARACTERS)]
Labels = Annotated[dict[LabelKey, LabelValue], Meta(max_length=MAX_LABELS)]


class ConfigOverride(TypedDict, total=False):
    """The keys that the service knows; all others are passed to the agent."""

    auto_trigger_on_cve_severity: Severity
    prompt: Annotated[Prompt, doc("What the agent should do.")]
    base_branch: Annotated[
        str,
        text(
            "The branch to start from and to open the pull request against; by default the"
            " repository's default branch.",
            max_length=200,
            without=Rule(f"{INVALID_BRANCH_NAME}|^HEAD$", "must be the name of a branch"),
        ),
    ]
    timeout_seconds: TimeoutSeconds
    max_cost_usd: MaxCostUsd
    draft: Annotated[bool, doc("Open the pull request as a draft.")]
    reviewers: Annotated[
        list[Annotated[str, text(min_length=1, max_length=100, without=UNPRINTABLE_CHARACTERS)]],
        Meta(description="Who is asked to review the pull request.", max_length=20),
    ]
    title: Annotated[
        str,
        text(
            "The title of the pull request, on one line.",
            max_length=200,
            matching=NOT_BLANK,
            without=UNPRINTABLE_CHARACTERS,
        ),
    ]
    priority: Annotated[
        Priority,
        doc(
            "Jobs with a higher priority start first among the waiting jobs of the organization;"
            " by default `normal`."
        ),
    ]


class JobConfigOverride(ConfigOverride, total=False):
    """The override as stored, possibly by an earlier version."""


class CreateJobRequest(msgspec.Struct, frozen=True):
    repo: RepoName
    agent: Annotated[AgentId, doc("Agent identifier.")]
    ticket_id: Annotated[TicketId | None, doc("Identifier of a ticket in an external tracker.")] = (
        None
    )
    config_override: Annotated[
        ConfigOverride | None,
        doc(
            "Per-job configuration overrides, at most 16 KiB as JSON. Keys that the"
            " service does not know are passed to the agent."
        ),
    ] = None
    labels: Annotated[
        Labels | None, doc("Keys and values of your choice, by which jobs can be listed.")
    ] = None


def create_job_request(body: Mapping[str, Any]) -> CreateJobRequest:
    """Builds a request without faults. Unlike `msgspec.convert`, it keeps the agent's own keys."""
    return CreateJobRequest(**select_fields(body, CreateJobRequest))


class Receipt(msgspec.Struct, frozen=True):
    job_id: JobId
    status: Annotated[JobStatus, doc("`queued` on creation.")]
    estimated_start_ms: Annotated[
        Count, doc("Estimated time until the job starts, in milliseconds.")
    ]
    warnings: Annotated[
        tuple[str, ...], doc("Fields and parameters of the request that were ignored.")
    ] = ()


class JobError(msgspec.Struct, frozen=True):
    code: Annotated[str, known_values("A stable code.", RETRYABLE)]
    message: Annotated[str, doc("What happened, for people.")]
    retryable: Annotated[bool, doc("Whether the same job may succeed when it is created again.")]


class Usage(msgspec.Struct, frozen=True):
    """What the models have cost so far; a request in progress counts with what is reserved."""

    input_tokens: Annotated[Count, doc("Tokens sent to models, cached ones included.")]
    output_tokens: Annotated[Count, doc("Tokens received from models.")]
    cost_usd: Annotated[float, Meta(description="What they cost, in US dollars.", ge=0)]
    requests: Annotated[Count, doc("Requests forwarded to models.")]


class TicketDetails(msgspec.Struct, frozen=True):
    """What the tracker returned for the job's ticket."""

    title: Annotated[str, doc("The title of the ticket.")]
    url: Annotated[Url, doc("The ticket's page.")]
    labels: Annotated[tuple[str, ...], doc("The labels of the ticket.")] = ()


class JobView(msgspec.Struct, frozen=True):
    job_id: JobId
    status: Annotated[JobStatus, doc("Current job status.")]
    agent: Annotated[str, doc("Agent identifier.")]
    pr_url: Annotated[Url | None, doc("URL of the pull request opened by the job.")]
    pr_number: Annotated[int | None, doc("Number of the pull request.")]
    started_at: Annotated[Timestamp | None, doc("When the job started.")]
    completed_at: Annotated[Timestamp | None, doc("When the job completed.")]
    repo: Annotated[str, doc("Repository full name, form `<owner>/<name>`.")]
    ticket_id: Annotated[str | None, doc("Identifier of a ticket in an external tracker.")]
    created_at: Annotated[Timestamp, doc("When the job was created.")]
    attempt: Annotated[Count, doc("How often the agent was started.")]
    error: Annotated[JobError | None, doc("Why the job failed or was cancelled.")]
    usage: Annotated[
        Usage | None,
        doc(
            "What the agent's models have used and cost so far; a request in progress"
            " counts with what is reserved for it. Null when no model was called."
        ),
    ]
    queue_reason: Annotated[
        str | None,
        known_values(
            "Why a queued job cannot start, or finished work is not published. Null when it only"
            " waits for jobs ahead of it.",
            (
                *("paused", "plan_limit", "repo_limit", "agent_limit"),
                *("platform_unreachable", "platform_refused", "tracker_unreachable"),
                *("environment_building", "no_worker", "disk_full"),
            ),
        ),
    ]
    verification: Annotated[
        Verification | None, doc("The result of the check after the agent; null without one.")
    ] = None
    follows: Annotated[str | None, doc("The job whose pull request this job continues.")] = None
    cause: Annotated[
        Cause | None,
        doc(
            "Why the service created this job by itself: the vulnerable package and its advisories."
        ),
    ] = None
    pr_state: Annotated[
        str | None,
        known_values(
            "The state of the pull request, as last reported by its platform.",
            ("open", "merged", "closed"),
        ),
    ] = None
    ticket: Annotated[TicketDetails | None, doc("The ticket as last read from the tracker.")] = None
    warnings: Annotated[
        tuple[str, ...], doc("What else went wrong, for people; no reason for the job to fail.")
    ] = ()
    environment: Annotated[
        EnvironmentView | None,
        doc("The environment that the job ran in; null if the repository defines none."),
    ] = None
    branch: Annotated[str | None, doc("The branch that the job's commit is pushed to.")] = None
    base_commit: Annotated[str | None, doc("The commit that the agent started from.")] = None
    head_commit: Annotated[str | None, doc("The commit with the agent's changes.")] = None
    config_override: Annotated[
        JobConfigOverride | None,
        doc(
            "The overrides of the request that the service knows; null without any. Keys that are"
            " only passed to the agent are never shown."
        ),
    ] = None
    labels: Annotated[dict[str, str], doc("The labels of the job.")] = {}
    elapsed_ms: Annotated[
        Count | None,
        doc(
            "How long the job has been running, or ran if it is finished, in milliseconds; null"
            " before it starts."
        ),
    ] = None
    queue_position: Annotated[
        int | None,
        doc(
            "The place of a waiting job in the queue of its organization, 1 for the next one; null"
            " after 1,000, and in listings."
        ),
    ] = None
    estimated_start_ms: Annotated[
        Count | None,
        doc(
            "Estimated time until a waiting job starts, in milliseconds; null if nobody can tell,"
            " and in listings."
        ),
    ] = None
    report_markdown: Annotated[
        str | None,
        doc(
            "The report of an agent that completes without a pull request; null for other agents,"
            " before it completes, and in listings."
        ),
    ] = None
    report_json: Annotated[
        Any,
        doc("The report as JSON that fits the agent's `result_schema`; null if it has none."),
    ] = None
    phases: Annotated[
        tuple[PhaseView, ...],
        doc(
            "What the job has done so far, in order: the wait in the queue, the preparation, the"
            " environment, the agent, its checks, the push and the pull request. Empty in listings."
        ),
    ] = ()


class EventView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Event identifier; the `webhook-id` of its deliveries.")]
    event: Annotated[str, known_values("Event type.", EVENTS)]
    sequence: Annotated[int, Meta(description="Order of the job's events, from 1.", ge=1)]
    timestamp: Annotated[Timestamp, doc("When the event occurred.")]
    payload: Annotated[msgspec.Raw, doc("The body of its deliveries.")]


class LogChunk(msgspec.Struct, frozen=True):
    sequence: int
    created_at: int
    text: str


def stored_environment(text: str | None) -> EnvironmentView | None:
    return None if text is None else msgspec.json.decode(text, type=EnvironmentView)


def stored_override(text: str) -> JobConfigOverride | None:
    if text == "{}":
        return None
    known = select_fields(msgspec.json.decode(text), JobConfigOverride)
    return cast("JobConfigOverride", known) if known else None


def stored_labels(text: str | None) -> dict[str, str]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])


def stored_ticket(text: str | None) -> TicketDetails | None:
    return None if text is None else msgspec.json.decode(text, type=TicketDetails)


def stored_warnings(text: str | None) -> tuple[str, ...]:
    return () if text is None else msgspec.json.decode(text, type=tuple[str, ...])

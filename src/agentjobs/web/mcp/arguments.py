"""The arguments of every tool: the schemas that models see, and the checks of what they send.

The REST API checks values again; these types only say what a tool takes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from agentjobs.agents.steps import StepKind
from agentjobs.json_fields import Rule, doc, faults_of, fields_of, text
from agentjobs.problems import Fault

MAX_WAIT_SECONDS = 300
MAX_LOG_BYTES = 100_000
MAX_DIFF_BYTES = 200_000

_NULL = {"type": "null"}

JobId = Annotated[
    str,
    text(
        "Job id, such as the one that create_job returned.",
        max_length=64,
        matching=Rule("^job_[A-Za-z0-9]+$", "must be a job id, like job_…"),
    ),
]
Cursor = Annotated[
    str | None, doc("`next_cursor` of the previous page; leave it out for the first page.")
]
Prompt = Annotated[
    str,
    Meta(
        description="The whole task in plain language. The agent sees the repository and this"
        " text, and nothing of this conversation.",
        min_length=1,
    ),
]


class JobConfig(TypedDict, total=False):
    base_branch: Annotated[
        str, doc("Branch to start from; by default the repository's default branch.")
    ]
    title: Annotated[str, doc("Title of the pull request.")]
    draft: Annotated[bool, doc("Open the pull request as a draft.")]
    reviewers: Annotated[list[str], doc("User names to request a review from.")]
    timeout_seconds: Annotated[
        int, Meta(description="Stop the agent after this time; only to lower its limit.", ge=1)
    ]
    max_cost_usd: Annotated[
        float, Meta(description="Stop the agent when it has spent this much.", gt=0)
    ]
    priority: Annotated[
        Literal["low", "normal", "high"], doc("Order among the organization's waiting jobs.")
    ]


class NoArguments(msgspec.Struct, frozen=True):
    pass


class ListRepos(msgspec.Struct, frozen=True):
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=200)] = 50
    cursor: Cursor = None


class CreateJob(msgspec.Struct, frozen=True):
    repo: Annotated[str, doc("Full name of a repository of list_repos, `<owner>/<name>`.")]
    agent: Annotated[str, doc("Id of an agent of list_agents.")]
    prompt: Prompt | None = None
    ticket_id: Annotated[
        str | None, doc("Ticket in the organization's tracker; its text becomes part of the task.")
    ] = None
    labels: Annotated[
        dict[str, str] | None, doc("Keys and values by which jobs can be found later.")
    ] = None
    config: Annotated[
        JobConfig | None, doc("Further settings of this job; unknown keys go to the agent.")
    ] = None


class OneJob(msgspec.Struct, frozen=True):
    job_id: JobId


class ListJobs(msgspec.Struct, frozen=True):
    status: Annotated[
        list[Literal["queued", "running", "completed", "failed", "cancelled"]] | None,
        doc("Only jobs in one of these statuses."),
    ] = None
    repo: Annotated[str | None, doc("Only jobs of the repository with this full name.")] = None
    agent: Annotated[str | None, doc("Only jobs of the agent with this id.")] = None
    ticket_id: Annotated[str | None, doc("Only jobs for this ticket.")] = None
    labels: Annotated[dict[str, str] | None, doc("Only jobs with all of these labels.")] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=50)] = 10
    cursor: Cursor = None


class WatchJob(msgspec.Struct, frozen=True):
    job_id: JobId
    until: Annotated[
        Literal["change", "final"],
        doc("`final`: wait until the job has ended. `change`: until its status changes."),
    ] = "final"
    wait_seconds: Annotated[
        int,
        Meta(
            description="How long to wait at most. Choose less than the time limit of your client"
            " for a call, which is often 60 seconds.",
            ge=0,
            le=MAX_WAIT_SECONDS,
        ),
    ] = 45


class FollowUpJob(msgspec.Struct, frozen=True):
    job_id: JobId
    prompt: Prompt
    agent: Annotated[str | None, doc("Id of another agent; by default the job's agent.")] = None


class ReadLog(msgspec.Struct, frozen=True):
    job_id: JobId
    max_bytes: Annotated[
        int,
        Meta(description="Read at most this much of the end.", ge=1, le=MAX_LOG_BYTES),
    ] = 10_000


class ReadSteps(msgspec.Struct, frozen=True):
    job_id: JobId
    kind: Annotated[StepKind | None, doc("Only steps of this kind.")] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=100)] = 50
    cursor: Cursor = None


class ReadDiff(msgspec.Struct, frozen=True):
    job_id: JobId
    path: Annotated[
        str | None, doc("Only the patch of this file; by default the patches of all files.")
    ] = None
    max_bytes: Annotated[
        int,
        Meta(description="Read at most this much of the patches.", ge=1, le=MAX_DIFF_BYTES),
    ] = 40_000


def argument_faults(arguments: Mapping[str, Any], type_: type[msgspec.Struct]) -> list[Fault]:
    unknown: list[Fault] = [
        {"field": name[:100], "message": "is not an argument of this tool"}
        for name in arguments
        if name not in type_.__struct_fields__
    ]
    return [*faults_of(fields_of(arguments, type_), type_), *unknown[:10]]


def input_schema(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Without references and nulls, which not every model API understands."""
    _, components = msgspec.json.schema_components([type_])
    schema = components[type_.__name__]
    return {
        "type": "object",
        "properties": {
            name: _plain(field, components) for name, field in schema["properties"].items()
        },
        "required": schema["required"],
        "additionalProperties": False,
    }


def _plain(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    for option in plain.pop("anyOf", ()):
        if option != _NULL:
            plain = {**_plain(option, components), **plain}
    if "items" in plain:
        plain["items"] = _plain(plain["items"], components)
    if "enum" in plain:
        plain["type"] = "string"
    if reference := plain.pop("$ref", None):
        fields = components[reference.rpartition("/")[2]]["properties"]
        plain["type"] = "object"
        plain["properties"] = {name: _plain(field, components) for name, field in fields.items()}
    return plain

"""The client has every operation of the service, every parameter, and every field of a response."""

import re
import typing
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from agentjobs.web.api.examples import response_example
from agentjobs.web.api.operation import Operation
from agentjobs.web.api.operations import OPERATIONS
from agentjobs_client import calls
from agentjobs_client.call import Call
from agentjobs_client.calls import (
    DependencyFilters,
    DismissOptions,
    FollowUpOptions,
    JobFilters,
    JobOptions,
    MergeOptions,
    PullFilters,
    RetryOptions,
    StepFilters,
    VulnerabilityFilters,
)
from agentjobs_client.models import jobs, organization, repos

CALLS: dict[str, Call[Any]] = {
    "listAgents": calls.list_agents(),
    "getAgent": calls.get_agent("x"),
    "listRepos": calls.list_repos(),
    "getRepo": calls.get_repo("x"),
    "listDependencies": calls.list_dependencies("x", {})(None),
    "getCaller": calls.get_caller(),
    "getUsage": calls.get_usage("2026-01-01", "2026-01-02", "day"),
    "createJob": calls.create_job("a/b", "c", {}),
    "followUpJob": calls.follow_up("x", "y", {}),
    "retryJob": calls.retry_job("x", {}),
    "getJob": calls.get_job("x", 1, "final"),
    "listJobs": calls.list_jobs({})(None),
    "cancelJob": calls.cancel_job("x"),
    "listJobEvents": calls.list_job_events("x"),
    "listEvents": calls.list_events("c", 1),
    "getJobPrompt": calls.get_prompt("x"),
    "getJobLogs": calls.get_logs("x", True, 1),
    "listJobSteps": calls.list_steps("x", {})(None),
    "getJobDiff": calls.get_diff("x"),
    "listJobArtifacts": calls.list_artifacts("x"),
    "getJobArtifact": calls.get_artifact("x", "y"),
    "listPulls": calls.list_pulls({})(None),
    "getPull": calls.get_pull("x"),
    "mergePull": calls.merge_pull("x", {}),
    "closePull": calls.close_pull("x"),
    "listVulnerabilities": calls.list_vulnerabilities({})(None),
    "dismissVulnerability": calls.dismiss_vulnerability("x", "fix_later", {}),
    "reopenVulnerability": calls.reopen_vulnerability("x"),
}
FILTERS = {
    "listJobs": JobFilters,
    "listDependencies": DependencyFilters,
    "listJobSteps": StepFilters,
    "listPulls": PullFilters,
    "listVulnerabilities": VulnerabilityFilters,
}
OPTIONS = {
    "createJob": JobOptions,
    "followUpJob": FollowUpOptions,
    "retryJob": RetryOptions,
    "mergePull": MergeOptions,
    "dismissVulnerability": DismissOptions,
}
# What iterators set by themselves, and the prefix of `labels`.
NOT_NAMED = {"limit", "cursor", "label"}

every_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=[operation.id for operation in OPERATIONS]
)


@every_operation
def test_every_operation_has_a_call(operation: Operation):
    call = CALLS[operation.id]
    pattern = re.sub(r"\{[a-z_]+(:path)?\}", "[^/]+", operation.path)
    assert call.method == operation.method
    assert re.fullmatch(pattern, call.path), call.path


@every_operation
def test_every_query_parameter_can_be_given(operation: Operation):
    if operation.query is None:
        return
    parameters = {field.encode_name for field in msgspec.structs.fields(operation.query)}
    given = set(CALLS[operation.id].params or {})
    if filters := FILTERS.get(operation.id):
        given |= filters.__annotations__.keys()
    assert parameters - given - NOT_NAMED == set()


@every_operation
def test_every_field_of_a_request_can_be_given(operation: Operation):
    options = OPTIONS.get(operation.id)
    if options is None:
        return
    fields = {field.encode_name for field in msgspec.structs.fields(operation.request)}
    body = msgspec.json.decode(CALLS[operation.id].content or b"{}")
    assert fields - options.__annotations__.keys() == set(body)


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct of an annotation such as `Annotated[list[JobView] | None, …]`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next(filter(None, map(struct_in, typing.get_args(annotation))), None)


def missing_fields(server: type, client: type, path: str) -> Iterator[str]:
    """Fields of a response that the type of the client does not have, also in nested types."""
    known = {field.encode_name: field for field in msgspec.structs.fields(client)}
    hints = typing.get_type_hints(server)
    for field in msgspec.structs.fields(server):
        where = f"{path}.{field.encode_name}"
        if field.encode_name not in known:
            yield where
            continue
        nested = struct_in(hints[field.name])
        if nested is not None:
            counterpart = struct_in(known[field.encode_name].type)
            if counterpart is None:
                yield f"{where} is not a type"
            else:
                yield from missing_fields(nested, counterpart, where)


RESPONSES = {
    "listAgents": repos.Agent,
    "getAgent": repos.Agent,
    "listRepos": repos.Repo,
    "getRepo": repos.Repo,
    "listDependencies": repos.Dependency,
    "getCaller": organization.Caller,
    "getUsage": organization.UsageReport,
    "createJob": jobs.JobReceipt,
    "followUpJob": jobs.JobReceipt,
    "retryJob": jobs.JobReceipt,
    "getJob": jobs.Job,
    "listJobs": jobs.Job,
    "cancelJob": jobs.Job,
    "listJobEvents": jobs.Event,
    "listEvents": jobs.EventPage,
    "getJobPrompt": jobs.Prompt,
    "listJobSteps": jobs.Step,
    "getJobDiff": jobs.Diff,
    "listJobArtifacts": jobs.Artifact,
    "listPulls": repos.Pull,
    "getPull": repos.Pull,
    "mergePull": repos.Pull,
    "closePull": repos.Pull,
    "listVulnerabilities": repos.Vulnerability,
    "dismissVulnerability": repos.Vulnerability,
    "reopenVulnerability": repos.Vulnerability,
}


@every_operation
def test_every_field_of_a_response_is_typed(operation: Operation):
    server = operation.response.type
    if server is None:
        assert operation.id in {"getJobLogs", "getJobArtifact"}
        return
    client = RESPONSES[operation.id]
    listed = {field.encode_name for field in msgspec.structs.fields(server)} & {
        *("agents", "repos", "dependencies", "jobs", "events", "artifacts", "pulls"),
        *("vulnerabilities", "steps"),
    }
    if listed and client is not jobs.EventPage and client is not organization.UsageReport:
        element = struct_in(typing.get_type_hints(server)[listed.pop()])
        assert element is not None
        server = element
    assert list(missing_fields(server, client, operation.id)) == []


@every_operation
def test_the_example_of_a_response_is_parsed(operation: Operation):
    response = operation.response
    if response.type is None:
        return
    document = {**response_example(response.type), **response.example_fields}
    example = httpx.Response(
        response.status, json=document, request=httpx.Request("GET", "http://test")
    )
    assert CALLS[operation.id].parse(example) is not None

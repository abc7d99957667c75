"""An operation of the API, declared once for the router and the OpenAPI document."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentjobs.advisories.vulnerability_view import ID_PATTERN as FINDING_ID_PATTERN
from agentjobs.organizations.api_keys import Scope as KeyScope
from agentjobs.pulls.pulls import ID_PATTERN as PULL_ID_PATTERN
from agentjobs.web.api import examples
from agentjobs.web.api.artifacts import NAME_PATTERN
from agentjobs.web.api.endpoint import Handler
from agentjobs_runtime.identifiers import id_pattern

TAG_DESCRIPTIONS: Mapping[str, str] = {
    "Jobs": "Create jobs, follow them, and read what their agents did.",
    "Pull requests": "Pull requests that jobs opened, and those of repositories hosted here.",
    "Repositories": "The repositories that are connected to the organization.",
    "Vulnerabilities": "Known vulnerabilities of the packages that repositories depend on.",
    "Agents": "The agent types that a job can use.",
    "Events": "Every change of state, for receivers that were unreachable.",
    "Organization": "Plan, limits and usage of the organization, and the scopes of the API key.",
}
# By the first segment of the path; those of jobs are the most frequent.
_TAGS: Mapping[str, str] = {
    "pulls": "Pull requests",
    "repos": "Repositories",
    "vulnerabilities": "Vulnerabilities",
    "agents": "Agents",
    "events": "Events",
    "me": "Organization",
    "usage": "Organization",
}
_IN_PATH = re.compile(r"{(\w+)}")


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """`spans_segments`: the parameter of a path may contain slashes; `not_found` is the error for
    an unknown value."""

    name: str
    where: Literal["path", "header"] = "path"
    description: str
    schema: Mapping[str, Any]
    example: Any = None
    spans_segments: bool = False
    not_found: str = ""


# The parameters of paths, by name.
_PATH_PARAMETERS: Mapping[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            name="job_id",
            description="The job's identifier.",
            schema={"type": "string", "pattern": id_pattern("job")},
            example=examples.JOB_ID,
            not_found="job_not_found",
        ),
        Parameter(
            name="name",
            description="The artifact's name.",
            schema={"type": "string", "pattern": NAME_PATTERN},
            example="coverage.txt",
            not_found="artifact_not_found",
        ),
        Parameter(
            name="repo_id",
            description="The repository's identifier.",
            schema={"type": "string", "pattern": id_pattern("repo")},
            example=examples.REPO_ID,
            not_found="repo_not_found",
        ),
        Parameter(
            name="pull_id",
            description="The pull request's identifier.",
            schema={"type": "string", "pattern": PULL_ID_PATTERN},
            example=examples.PULL_ID,
            not_found="pull_not_found",
        ),
        Parameter(
            name="vulnerability_id",
            description="The vulnerability's identifier.",
            schema={"type": "string", "pattern": FINDING_ID_PATTERN},
            example=examples.VULNERABILITY_ID,
            not_found="vulnerability_not_found",
        ),
        Parameter(
            name="agent_id",
            description="The agent's identifier.",
            schema={"type": "string"},
            example="lint-fixer",
            not_found="agent_not_found",
        ),
    )
}


class SuccessResponse(msgspec.Struct, frozen=True):
    """`type` is a struct that is sent as JSON, and `example_fields` are fields of its example that
    differ from those of other operations; `texts` has examples of texts by media type."""

    description: str
    type: Any = None
    example_fields: Mapping[str, Any] = {}
    status: int = 200
    texts: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is relative to `/v1`; `errors` are codes beyond those of every operation and
    those that follow from its method, path, query and request. `parameters` are headers, and those
    of the path that differ from the other operations'.

    `write_scope` is the scope that a POST needs.
    """

    method: Literal["GET", "POST"] = "GET"
    path: str
    handler: Handler
    id: str
    summary: str
    description: str
    response: SuccessResponse
    parameters: tuple[Parameter, ...] = ()
    query: Any = None
    request: Any = None
    request_example: Any = None
    errors: tuple[str, ...] = ()
    write_scope: KeyScope = "jobs"

    @property
    def scope(self) -> KeyScope:
        return "read" if self.method == "GET" else self.write_scope

    @property
    def tag(self) -> str:
        return _TAGS.get(self.path.split("/")[1], "Jobs")

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the path come first."""
        own = {parameter.name: parameter for parameter in self.parameters}
        in_path = {name: _PATH_PARAMETERS[name] for name in _IN_PATH.findall(self.path)}
        return tuple((in_path | own).values())

    @property
    def all_errors(self) -> tuple[str, ...]:
        scope = ("insufficient_scope",) if self.method == "POST" else ()
        body = ("payload_too_large", "request_timeout", "invalid_json") if self.request else ()
        values = ("validation_failed",) if self.request or self.query else ()
        missing = (parameter.not_found for parameter in self.all_parameters if parameter.not_found)
        return (*scope, *body, *values, *missing, *self.errors)

    @property
    def route_path(self) -> str:
        """The path in Starlette's notation."""
        path = self.path
        for parameter in self.all_parameters:
            if parameter.spans_segments:
                path = path.replace(f"{{{parameter.name}}}", f"{{{parameter.name}:path}}")
        return path

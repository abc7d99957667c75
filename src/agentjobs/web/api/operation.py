"""An operation of the API, declared once for the router and the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentjobs.organizations.api_keys import Scope as KeyScope
from agentjobs.web.api.deprecation import Deprecation
from agentjobs.web.api.endpoint import Handler

# Every tag is described in the OpenAPI document.
Tag = Literal[
    "Jobs",
    "Pull requests",
    "Repositories",
    "Vulnerabilities",
    "Agents",
    "Events",
    "Organization",
]
TAG_DESCRIPTIONS: Mapping[Tag, str] = {
    "Jobs": "Create jobs, follow them, and read what their agents did.",
    "Pull requests": "Pull requests that jobs opened, and those of repositories hosted here.",
    "Repositories": "The repositories that are connected to the organization.",
    "Vulnerabilities": "Known vulnerabilities of the packages that repositories depend on.",
    "Agents": "The agent types that a job can use.",
    "Events": "Every change of state, for receivers that were unreachable.",
    "Organization": "Plan, limits and usage of the organization, and the scopes of the API key.",
}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """`spans_segments`: the parameter of a path may contain slashes."""

    name: str
    where: Literal["path", "header"] = "path"
    description: str
    schema: Mapping[str, Any]
    example: Any = None
    spans_segments: bool = False


class SuccessResponse(msgspec.Struct, frozen=True):
    """`type` is a struct that is sent as JSON; `texts` has examples of texts by media type."""

    description: str
    type: Any = None
    example: Any = None
    status: int = 200
    texts: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is relative to `/v1`; `errors` are codes beyond those of every operation and
    those that follow from its method, query and request.

    `write_scope` is the scope that a POST needs. `deprecated_parameters` are parameters of the
    query, by name.
    """

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    id: str
    tag: Tag
    summary: str
    description: str
    response: SuccessResponse
    parameters: tuple[Parameter, ...] = ()
    query: Any = None
    request: Any = None
    request_example: Any = None
    errors: tuple[str, ...] = ()
    write_scope: KeyScope = "jobs"
    deprecation: Deprecation | None = None
    deprecated_parameters: Mapping[str, Deprecation] = {}

    @property
    def scope(self) -> KeyScope:
        return "read" if self.method == "GET" else self.write_scope

    @property
    def all_errors(self) -> tuple[str, ...]:
        scope = ("insufficient_scope",) if self.method == "POST" else ()
        body = ("payload_too_large", "request_timeout", "invalid_json") if self.request else ()
        values = ("validation_failed",) if self.request or self.query else ()
        return (*scope, *body, *values, *self.errors)

    @property
    def route_path(self) -> str:
        """The path in Starlette's notation."""
        path = self.path
        for parameter in self.parameters:
            if parameter.spans_segments:
                path = path.replace(f"{{{parameter.name}}}", f"{{{parameter.name}:path}}")
        return path

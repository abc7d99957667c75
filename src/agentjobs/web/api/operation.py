"""What one operation of the API is, said once: the router and the OpenAPI document both read it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentjobs.web.api.endpoint import Handler

Schema = Mapping[str, Any]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    where: Literal["path", "query", "header"]
    description: str
    schema: Schema
    example: Any = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer when all went well; its type is a struct, or a plain schema per media type."""

    status: int
    description: str
    type: Any = None
    example: Any = None
    texts: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is relative to `/v1`; `errors` are codes beyond those that every operation has."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    id: str
    tag: str
    summary: str
    description: str
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    request: Any = None
    request_example: Any = None
    errors: tuple[str, ...] = ()

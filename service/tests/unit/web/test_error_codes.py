"""The error codes that the OpenAPI document declares are those that the API can send."""

import ast
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest

from agentjobs.web import http_protocol
from agentjobs.web.api.endpoint import Endpoint
from agentjobs.web.api.error_codes import API_ERRORS
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.openapi_responses import COMMON_ERRORS
from agentjobs.web.api.operation import Operation
from agentjobs.web.api.operations import BASE, OPERATIONS
from agentjobs.web.api.rate_limit import RateLimiter
from agentjobs.web.envelope import Envelope


def codes_in(source: str) -> set[str]:
    """The codes of every `Problem(…)` and `HttpProblem(…)`."""
    return {
        call.args[0].value
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id.endswith("Problem")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }


def reachable(start: Any) -> Iterator[Any]:
    """Functions and classes of ours that the code of `start` names, directly or not."""
    visited: set[int] = set()
    pending = [start]
    while pending:
        subject = pending.pop()
        if id(subject) in visited or not _is_ours(subject):
            continue
        visited.add(id(subject))
        if not isinstance(subject, types.ModuleType):
            yield subject
            pending += _named_in(subject)


def _is_ours(subject: Any) -> bool:
    is_code = isinstance(subject, types.FunctionType | type)
    return is_code and subject.__module__.startswith("agentjobs.")


def _named_in(subject: Any) -> Iterator[Any]:
    functions = [subject] if isinstance(subject, types.FunctionType) else vars(subject).values()
    for function in functions:
        if not isinstance(function, types.FunctionType):
            continue
        # Decorators run it in a transaction.
        work = inspect.unwrap(function)
        names = list(_names(work.__code__))
        for name in names:
            value = work.__globals__.get(name)
            yield value
            if isinstance(value, types.ModuleType):
                yield from (getattr(value, other, None) for other in names)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def codes_sent_by(handler: Any) -> set[str]:
    return set().union(*(codes_in(inspect.getsource(subject)) for subject in reachable(handler)))


# Error pages of the dashboard show a form again, but read no numbers from it.
FORM_ERRORS = {"invalid_number"}
# What every request passes before a handler: the HTTP parser, the outermost layer, the route.
BEFORE_HANDLERS = (
    codes_in(inspect.getsource(http_protocol)).union(
        *map(codes_sent_by, (Envelope, Endpoint, RateLimiter))
    )
    - FORM_ERRORS
)
WRITE_ERRORS = {"insufficient_scope"}
ROUTE_ERRORS = {"not_found", "method_not_allowed"}


def test_the_codes_of_every_operation_are_declared() -> None:
    assert set(COMMON_ERRORS) == BEFORE_HANDLERS - WRITE_ERRORS - ROUTE_ERRORS


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_the_codes_of_an_operation_are_declared(operation: Operation) -> None:
    sent = codes_sent_by(operation.handler) - set(COMMON_ERRORS)
    if operation.method != "GET":
        sent |= WRITE_ERRORS
    assert set(operation.all_errors) == sent


def test_the_document_lists_every_code_of_the_api() -> None:
    sent = BEFORE_HANDLERS.union(*(codes_sent_by(subject.handler) for subject in OPERATIONS))
    schemas = build_document(OPERATIONS, base=BASE)["components"]["schemas"]
    declared = schemas["Error"]["properties"]["code"]["x-extensible-enum"]
    assert set(declared) == set(API_ERRORS) == sent

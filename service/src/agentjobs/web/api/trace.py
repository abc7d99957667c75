"""The trace of a request: the caller's, if its header `traceparent` names one.

Read only after authentication, so that strangers cannot have their requests recorded.
"""

from collections.abc import Awaitable, Callable

from opentelemetry.trace import Span, SpanKind
from starlette.responses import Response
from starlette.types import Scope

from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.auth import READING_METHODS
from agentjobs.web.api.errors import find_status, internal_error, to_problem
from agentjobs.web.api.headers import all_headers
from agentjobs_runtime.tracing.spans import continue_trace, fail, is_recording, set_attributes
from agentjobs_runtime.tracing.trace_context import HEADER, read_traceparent

_HEADER = HEADER.encode()


def is_traced(scope: Scope) -> bool:
    """Requests that only read, such as those of clients that poll, belong to no job's trace."""
    if all_headers(scope, _HEADER):
        return True
    return is_recording() and scope["method"] not in READING_METHODS


async def respond_traced(
    scope: Scope, caller: Caller, respond: Callable[[], Awaitable[Response]]
) -> Response:
    method, route = scope["method"], scope["route"].path
    attributes = {
        "http.request.method": method,
        "http.route": route,
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "agentjobs.organization.id": caller.organization_id,
    }
    traceparent = read_traceparent(all_headers(scope, _HEADER))
    with continue_trace(f"{method} {route}", traceparent, attributes, kind=SpanKind.SERVER) as span:
        result = await _result(respond)
        _record(span, result)
    if isinstance(result, Response):
        return result
    raise result


async def _result(respond: Callable[[], Awaitable[Response]]) -> Response | Exception:
    try:
        return await respond()
    except Exception as error:  # noqa: BLE001 - raised again after the span
        return error


def _record(span: Span, result: Response | Exception) -> None:
    """A request that the client has to correct is not a failure of the service."""
    if isinstance(result, Response):
        set_attributes(span, {"http.response.status_code": result.status_code})
        return
    problem = to_problem(result) or internal_error()
    set_attributes(
        span, {"http.response.status_code": find_status(problem), "error.type": problem.code}
    )
    if find_status(problem) >= 500:
        fail(span, problem.code)

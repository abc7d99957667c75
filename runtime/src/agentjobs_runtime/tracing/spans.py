"""Spans of traces, for the rest of the service. Without an export they only pass a trace on."""

import contextlib
import functools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.tracing.trace_context import parse_traceparent, write_traceparent

P = ParamSpec("P")
T = TypeVar("T")

Attributes = Mapping[str, str | int | float | bool | None]
"""None: unknown, and left out."""

_NS_PER_MS = 1_000_000
_NO_EXPORT = NoOpTracer()

chosen_span_id: ContextVar[int | None] = ContextVar("chosen_span_id", default=None)
"""The identifier of the next span; None: a random one."""

_tracer: Tracer = _NO_EXPORT
# Not the current span of OpenTelemetry: libraries may have set one.
_current: ContextVar[Span] = ContextVar("span", default=INVALID_SPAN)


def set_tracer(tracer: Tracer | None) -> None:
    """For the whole process; None while nothing is exported."""
    global _tracer  # noqa: PLW0603 - one place instead of a parameter of every function
    _tracer = tracer or _NO_EXPORT


def is_recording() -> bool:
    return _tracer is not _NO_EXPORT


def current_traceparent() -> str | None:
    return write_traceparent(_current.get())


def span(
    name: str, attributes: Attributes | None = None
) -> contextlib.AbstractContextManager[Span]:
    """A part of what the current task does."""
    parent = set_span_in_context(_current.get(), Context())
    return _enter(_tracer.start_span(name, parent, attributes=_known(attributes)))


def continue_trace(
    name: str,
    traceparent: str | None,
    attributes: Attributes | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> contextlib.AbstractContextManager[Span]:
    """Let the work of the current task belong to this trace, or to a new one."""
    parent = parse_traceparent(traceparent)
    return _enter(_tracer.start_span(name, parent, kind, _known(attributes)))


def record_wait(
    name: str, traceparent: str | None, start_ms: int, attributes: Attributes | None = None
) -> None:
    """A span from `start_ms` until now."""
    # A database may have another clock, and no span ends before it starts.
    start_ns = min(start_ms, now_ms()) * _NS_PER_MS
    parent = parse_traceparent(traceparent)
    _tracer.start_span(name, parent, attributes=_known(attributes), start_time=start_ns).end()


def begin_trace() -> str | None:
    """The current trace; while traces are recorded, a new one if there is none.

    Not for functions that run inside a transaction: its context may be that of another caller.
    """
    traceparent = current_traceparent()
    if traceparent is not None or not is_recording():
        return traceparent
    with continue_trace("create job", None) as created:
        return write_traceparent(created)


def reserve_span(traceparent: str | None) -> str | None:
    """A span of this trace that `record_span` records later, possibly in another process."""
    context = get_current_span(parse_traceparent(traceparent)).get_span_context()
    if not is_recording() or not context.is_valid:
        return traceparent
    reserved = SpanContext(context.trace_id, random.getrandbits(64), False, context.trace_flags)
    return write_traceparent(NonRecordingSpan(reserved))


@contextlib.contextmanager
def within_span(traceparent: str | None) -> Iterator[None]:
    """What the current task does is part of a reserved span."""
    token = _current.set(get_current_span(parse_traceparent(traceparent)))
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def record_span(
    name: str,
    traceparent: str | None,
    reserved: str | None,
    start_ms: int,
    kind: SpanKind,
    attributes: Attributes,
) -> Iterator[Span]:
    """Record the span that was reserved in the trace of `traceparent`."""
    chosen = get_current_span(parse_traceparent(reserved)).get_span_context()
    token = chosen_span_id.set(chosen.span_id if reserved != traceparent else None)
    try:
        start_ns = min(start_ms, now_ms()) * _NS_PER_MS
        parent = parse_traceparent(traceparent)
        started = _tracer.start_span(name, parent, kind, _known(attributes), start_time=start_ns)
    finally:
        chosen_span_id.reset(token)
    try:
        yield started
    finally:
        started.end()


def traced(name: str) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Each call of the function is a span."""

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            with span(name):
                return await function(*args, **kwargs)

        return call

    return decorate


@contextlib.asynccontextmanager
async def traced_entry(name: str, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Entering the context is a span, what happens inside is not."""
    async with AsyncExitStack() as stack:
        with span(name):
            value = await stack.enter_async_context(manager)
        yield value


def set_attributes(changed: Span, attributes: Attributes) -> None:
    changed.set_attributes(_known(attributes))


def fail(failed: Span, error_type: str) -> None:
    """Record a code, never the message, which may quote a prompt or a path."""
    failed.set_status(StatusCode.ERROR)
    failed.set_attribute("error.type", error_type)


@contextlib.contextmanager
def _enter(started: Span) -> Iterator[Span]:
    token = _current.set(started)
    try:
        yield started
    except BaseException as error:
        if getattr(error, "is_failure", True):
            fail(started, _error_type(error))
        raise
    finally:
        _current.reset(token)
        started.end()


def _error_type(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__


def _known(attributes: Attributes | None) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in (attributes or {}).items() if value is not None}

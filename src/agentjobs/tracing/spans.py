"""Spans of traces, for the rest of the service. Without a recorder they only pass a trace on."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from typing import Literal, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Attributes = Mapping[str, str | int | float | bool | None]
"""None: unknown, and left out."""
Kind = Literal["internal", "server", "client", "consumer"]

_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


class Span(Protocol):
    @property
    def traceparent(self) -> str | None:
        """What others continue the trace with."""

    def set(self, attributes: Attributes) -> None: ...

    def fail(self, error_type: str) -> None: ...

    def end(self) -> None: ...


class Recorder(Protocol):
    """`parent` is a traceparent; `is_remote`: of another process. None starts a trace."""

    def start(
        self,
        name: str,
        attributes: Attributes,
        *,
        parent: str | None,
        is_remote: bool,
        kind: Kind,
        start_ms: int | None,
    ) -> Span: ...


class _Unrecorded:
    __slots__ = ("traceparent",)

    def __init__(self, traceparent: str | None) -> None:
        self.traceparent = traceparent

    def set(self, attributes: Attributes) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def end(self) -> None:
        pass


_recorder: Recorder | None = None


def set_recorder(recorder: Recorder | None) -> None:
    """For the whole process."""
    global _recorder  # noqa: PLW0603 - one place instead of a parameter of every function
    _recorder = recorder


def is_recording() -> bool:
    return _recorder is not None


def current_traceparent() -> str | None:
    return _current.get()


@contextlib.contextmanager
def span(name: str, attributes: Attributes | None = None) -> Iterator[Span]:
    """A part of what the current task does."""
    with _enter(_start(name, attributes, _current.get(), is_remote=False)) as entered:
        yield entered


@contextlib.contextmanager
def continue_trace(
    name: str,
    traceparent: str | None,
    attributes: Attributes | None = None,
    kind: Kind = "internal",
) -> Iterator[Span]:
    """What the current task does belongs to this trace, or to a new one."""
    with _enter(_start(name, attributes, traceparent, kind=kind)) as entered:
        yield entered


def record_wait(
    name: str, traceparent: str | None, start_ms: int, attributes: Attributes | None = None
) -> None:
    """A span from `start_ms` until now."""
    if _recorder is not None:
        _start(name, attributes, traceparent, start_ms=start_ms).end()


def begin_trace() -> str | None:
    """The current trace; while traces are recorded, a new one if there is none.

    Not for functions that run inside a transaction: its context may be that of another caller.
    """
    traceparent = _current.get()
    if traceparent is not None or _recorder is None:
        return traceparent
    started = _start("create job", None, None)
    started.end()
    return started.traceparent


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


def _start(
    name: str,
    attributes: Attributes | None,
    parent: str | None,
    *,
    is_remote: bool = True,
    kind: Kind = "internal",
    start_ms: int | None = None,
) -> Span:
    if _recorder is None:
        return _Unrecorded(parent)
    return _recorder.start(
        name, attributes or {}, parent=parent, is_remote=is_remote, kind=kind, start_ms=start_ms
    )


@contextlib.contextmanager
def _enter(started: Span) -> Iterator[Span]:
    token = _current.set(started.traceparent)
    try:
        yield started
    except BaseException as error:
        if getattr(error, "is_failure", True):
            started.fail(_error_type(error))
        raise
    finally:
        _current.reset(token)
        started.end()


def _error_type(error: BaseException) -> str:
    """Never the message, which may quote a prompt or a path."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__

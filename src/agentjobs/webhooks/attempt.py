"""One attempt: the request, the head of the answer, the first bytes of its body.

Never raises what a receiver can cause: all of it becomes an Attempt. Only a machine that has run
out of files or memory is no receiver's doing, and raises OutOfRoom. Signs and stores nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from agentjobs.clock import now_ms
from agentjobs.outbound.untrusted_http.connection import StrangerConnection
from agentjobs.outbound.untrusted_http.dial import Origin, Progress
from agentjobs.outbound.untrusted_http.pool import IdleConnections
from agentjobs.outbound.untrusted_http.response import Answer, RawHeaders
from agentjobs.webhooks.failures import (
    Failure,
    Limits,
    OutOfRoom,
    failure_of_error,
    failure_of_status,
    is_out_of_room,
    is_success,
)
from agentjobs.webhooks.model import Attempt, Headers
from agentjobs.webhooks.receivers import Request

BODY_SECONDS = 2
MOST_HEADERS = 100
# So much of them is logged.
HEADER_BYTES = 16 * 1024


class Way(NamedTuple):
    """To one receiver: over a connection that `owner` has left, or one that is made now."""

    origin: Origin
    owner: Hashable
    connect: Callable[[Progress], Awaitable[StrangerConnection]]


class Seen(Progress):
    """What an attempt has seen so far; its connection stays its own until it ends."""

    __slots__ = ("at", "began", "connection")

    def __init__(self) -> None:
        super().__init__()
        self.at = now_ms()
        self.began = time.monotonic()
        self.connection: StrangerConnection | None = None

    @property
    def answer(self) -> Answer | None:
        """Only one whose head is there."""
        connection = self.connection
        return connection.answer if connection is not None and connection.has_answered else None


async def make_attempt(
    idle: IdleConnections, way: Way, request: Request, limits: Limits
) -> Attempt:
    seen = Seen()
    trouble: Exception | None = None
    try:
        await _exchange(idle, way, request.data, limits, seen)
    except asyncio.CancelledError:
        # Who was told already must not be told again, for the sake of a body.
        if seen.answer is None:
            raise
        _go_on()
    except Exception as error:  # noqa: BLE001 - whatever a receiver causes is its attempt's result
        trouble = error
    finally:
        if seen.connection is not None:
            idle.put(way.owner, seen.connection)
    # With the head it is decided: a body that is late, cut or malformed changes nothing.
    if (answer := seen.answer) is not None:
        return _answered(seen, request, answer)
    return _unanswered(seen, request, _failure(trouble, way.origin, limits, seen))


def failed_attempt(request: Request, failure: Failure) -> Attempt:
    """One that nothing was dialled for."""
    return _unanswered(Seen(), request, failure)


async def _exchange(
    idle: IdleConnections, way: Way, data: bytes, limits: Limits, seen: Seen
) -> None:
    until = asyncio.get_running_loop().time() + limits.timeout_seconds
    connection = idle.take(way.owner)
    if connection is None:
        async with asyncio.timeout(limits.connect_seconds):
            connection = await way.connect(seen)
    seen.connection = connection
    seen.address = connection.address
    seen.stage = "exchange"
    await connection.ask(data, until, BODY_SECONDS)


def _go_on() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


def _failure(trouble: Exception | None, origin: Origin, limits: Limits, seen: Seen) -> Failure:
    error = trouble or RuntimeError("nothing came")
    if seen.stage != "exchange" and is_out_of_room(error):
        raise OutOfRoom(str(error))
    return failure_of_error(error, seen.stage, origin, limits)


def _answered(seen: Seen, request: Request, answer: Answer) -> Attempt:
    assert seen.connection is not None
    failure = None if is_success(answer.status) else _failure_of(answer)
    return Attempt(
        at=seen.at,
        duration_ms=round((seen.connection.answered_at - seen.began) * 1_000),
        request_headers=request.headers,
        address=seen.address,
        status_code=answer.status,
        response_headers=_received_headers(answer.headers),
        response_body=bytes(answer.body),
        error_class=failure and failure.error_class,
        error=failure and failure.error,
    )


def _unanswered(seen: Seen, request: Request, failure: Failure) -> Attempt:
    return Attempt(
        at=seen.at,
        duration_ms=round((time.monotonic() - seen.began) * 1_000),
        request_headers=request.headers,
        address=seen.address,
        error_class=failure.error_class,
        error=failure.error,
    )


def _failure_of(answer: Answer) -> Failure:
    locations = (value for name, value in answer.headers if name.lower() == b"location")
    return failure_of_status(answer.status, _text(answer.reason), _text(next(locations, b"")))


def _received_headers(raw: RawHeaders) -> Headers:
    """The first of them, as far as there is room in the log."""
    kept: list[tuple[str, str]] = []
    room = HEADER_BYTES
    for name, value in raw[:MOST_HEADERS]:
        room -= len(name) + len(value)
        if room < 0:
            break
        kept.append((_text(name), _text(value)))
    return tuple(kept)


def _text(raw: bytes) -> str:
    """No lone surrogate; that there is no control character is the parser's care."""
    return raw.decode("utf-8", "replace")

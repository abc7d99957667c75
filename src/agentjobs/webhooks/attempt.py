"""One attempt on one session: the request, the head of the answer, the first bytes of its body.

Never raises what a receiver can cause: all of it becomes an Attempt. Only a machine that has run
out of files or memory is no receiver's doing, and raises OutOfRoom. Signs and stores nothing.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple

import aiohttp
from yarl import URL

from agentjobs.clock import now_ms
from agentjobs.outbound.strangers import StrangerProtocol
from agentjobs.webhooks.failures import (
    Failure,
    OutOfRoom,
    Progress,
    failure_of_error,
    failure_of_status,
    is_out_of_room,
    is_success,
)
from agentjobs.webhooks.model import Attempt, Headers

BODY_BYTES = 16 * 1024
BODY_SECONDS = 2
MOST_HEADERS = 100


class Seen:
    """What an attempt has seen so far."""

    __slots__ = ("address", "at", "began", "body", "ended", "headers", "is_sent", "response")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.at = now_ms()
        self.began = time.monotonic()
        self.headers = headers
        self.address: str | None = None
        self.is_sent = False
        self.ended = self.began
        self.response: aiohttp.ClientResponse | None = None
        self.body = bytearray()


_seen: ContextVar[Seen | None] = ContextVar("_seen", default=None)


def note_dial(address: str) -> None:
    """Called while an attempt dials, in its context."""
    seen = _seen.get()
    if seen is not None:
        seen.address = address


class SeenRequest(aiohttp.ClientRequest):
    """Lets its attempt know what is really sent, and where: a kept connection is not dialled."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        seen = _seen.get()
        if seen is not None:
            seen.is_sent = True
            seen.headers = self.headers
            protocol = conn.protocol
            if isinstance(protocol, StrangerProtocol):
                protocol.begin_answer()
                seen.address = protocol.peer or seen.address
        return await super().send(conn)


class Request(NamedTuple):
    """Bytes as they are signed, and where they go: by a proxy, or straight."""

    url: URL
    headers: Mapping[str, str]
    body: bytes
    proxy: URL | None = None


class Limits(NamedTuple):
    timeout_seconds: float
    connect_seconds: float


async def make_attempt(session: aiohttp.ClientSession, request: Request, limits: Limits) -> Attempt:
    """`session` makes SeenRequests, tells `note_dial` and knows the limit of connecting itself."""
    seen = Seen(request.headers)
    token = _seen.set(seen)
    try:
        failure = await _outcome(session, request, limits, seen)
    finally:
        _seen.reset(token)
        if seen.response is not None:
            # Only a whole answer leaves a connection that can be used again.
            seen.response.close()
    return _attempt(seen, failure)


def failed_attempt(request: Request, failure: Failure) -> Attempt:
    """One that nothing was dialled for."""
    return _attempt(Seen(request.headers), failure)


async def _outcome(
    session: aiohttp.ClientSession, request: Request, limits: Limits, seen: Seen
) -> Failure | None:
    trouble: Exception = aiohttp.ClientError("nothing came")
    try:
        await _exchange(session, request, limits, seen)
    except asyncio.CancelledError:
        # Who was told already must not be told again, for the sake of a body.
        if seen.response is None:
            raise
        _go_on()
    except Exception as error:  # noqa: BLE001 - whatever a receiver causes is its attempt's result
        trouble = error
    # With the head it is decided: a body that is late, cut or malformed changes nothing.
    if seen.response is not None:
        return _verdict(seen.response)
    if is_out_of_room(trouble):
        raise OutOfRoom(str(trouble))
    seen.ended = time.monotonic()
    return failure_of_error(trouble, _progress(request, limits, seen))


def _go_on() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def _exchange(
    session: aiohttp.ClientSession, request: Request, limits: Limits, seen: Seen
) -> None:
    async with asyncio.timeout(limits.timeout_seconds) as limit:
        response = await session.post(
            request.url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            proxy=request.proxy,
        )
        seen.response = response
        seen.ended = time.monotonic()
        if not response.content.is_eof():
            limit.reschedule(asyncio.get_running_loop().time() + BODY_SECONDS)
        await _read_first_bytes(response.content, seen.body)


async def _read_first_bytes(content: aiohttp.StreamReader, kept: bytearray) -> None:
    while len(kept) < BODY_BYTES and not content.at_eof():
        kept += await content.read(BODY_BYTES - len(kept))


def _progress(request: Request, limits: Limits, seen: Seen) -> Progress:
    return Progress(
        is_dialled=seen.address is not None,
        is_sent=seen.is_sent,
        is_tls=request.url.scheme == "https",
        connect_seconds=limits.connect_seconds,
        timeout_seconds=limits.timeout_seconds,
    )


def _verdict(response: aiohttp.ClientResponse) -> Failure | None:
    if is_success(response.status):
        return None
    return failure_of_status(response.status, response.reason, response.headers.get("Location"))


def _attempt(seen: Seen, failure: Failure | None) -> Attempt:
    response = seen.response
    return Attempt(
        at=seen.at,
        duration_ms=round((seen.ended - seen.began) * 1_000),
        request_headers=_sent_headers(seen.headers),
        address=seen.address,
        status_code=None if response is None else response.status,
        response_headers=() if response is None else _received_headers(response.raw_headers),
        response_body=bytes(seen.body),
        error_class=failure and failure.error_class,
        error=failure and failure.error,
    )


def _sent_headers(headers: Mapping[str, str]) -> Headers:
    # By thousands a second: a list is quicker than a generator.
    return tuple([(str(name), value) for name, value in headers.items()])


def _received_headers(raw: Sequence[tuple[bytes, bytes]]) -> Headers:
    return tuple([(_text(name), _text(value)) for name, value in raw[:MOST_HEADERS]])


def _text(raw: bytes) -> str:
    """No lone surrogate; that there is no NUL is the parser's care."""
    return raw.decode("utf-8", "replace")

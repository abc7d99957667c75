"""`/hooks/{platform}/{connection_id}`: receives webhooks of platforms. Those that the service
registered have the repository's ID in their URL, and a secret each.

Verifies the signature. What the event names becomes due for a sync.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.connections.connections import open_hook_secret
from agentjobs.organizations.sealing import DecryptionFailed
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platform_sync.hook_registration import open_registered_secret
from agentjobs.platforms.hooks import (
    HookEvent,
    is_signed,
    lacks_signature,
    parse_event,
    read_delivery_id,
)
from agentjobs.web.api.endpoint import Reply
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.headers import media_type
from agentjobs.web.api.requests import check_content_encoding
from agentjobs.web.context import WebContext
from agentjobs.web.git.body import limit_size, receive_pieces
from agentjobs.web.hooks.limits import BodyMemory, DeliveryDropped
from agentjobs_runtime.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")

MAX_HOOK_BYTES = 5 * 1024 * 1024
# The largest webhook that platforms send.
_MAX_DISCARDED_BYTES = 25 * 1024 * 1024
# Verifying and parsing it takes less than a millisecond.
_SMALL_BODY_BYTES = 128 * 1024
_BODY_SECONDS = 60.0
_CLOSING = {"Connection": "close"}
_STATUSES = {"new": "accepted", "known": "known", "unconnected": "ignored"}


async def receive_hook(request: Request) -> Response:
    await _check_headers(request)
    context: WebContext = request.app.state.context
    connection_id: str = request.path_params["connection_id"]
    try:
        event, delivery_id = await _verify(request, context, connection_id)
    except DeliveryDropped:
        context.hook_limits.log_dropped(connection_id)
        return Reply(202, {"status": "dropped"})
    repo_id = request.path_params.get("repo_id")
    status = await record_hook_delivery(context.db, connection_id, delivery_id, event, repo_id)
    return Reply(202, {"status": _STATUSES[status]})


async def _verify(
    request: Request, context: WebContext, connection_id: str
) -> tuple[HookEvent | None, str]:
    """The event and the delivery's ID. An unknown connection and a wrong secret look the same.

    Raises DeliveryDropped.
    """
    platform, headers = request.path_params["platform"], request.headers
    repo_id = request.path_params.get("repo_id")
    secret = await _secret(context, platform, connection_id, repo_id)
    if lacks_signature(platform, secret, headers):
        raise _unauthorized()
    with context.hook_limits.reserve(connection_id) as memory:
        # The body is read for an unknown connection too, so that timing reveals nothing.
        body = await _body(request, memory if secret else None)
        if not await _off_loop(body, is_signed, platform, secret, headers, body):
            raise _unauthorized()
        context.hook_limits.take(connection_id)
        if media_type(headers.get("content-type")) == "application/x-www-form-urlencoded":
            raise Problem(
                "unsupported_media_type", "Set the content type of this hook to application/json."
            )
        event = await _off_loop(body, parse_event, platform, headers, body)
        return event, await _off_loop(body, read_delivery_id, platform, headers, body)


async def _off_loop(body: bytes, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it in a thread if the body is large."""
    if len(body) <= _SMALL_BODY_BYTES:
        return call(*args, **kwargs)
    return await asyncio.to_thread(call, *args, **kwargs)


async def _secret(
    context: WebContext, platform: str, connection_id: str, repo_id: str | None
) -> str:
    """Empty if there is no such connection or no such webhook."""
    if not f"{connection_id}{repo_id}".isascii():
        return ""
    opened = await _open(context, connection_id, repo_id)
    return opened[1] if opened is not None and opened[0] == platform else ""


async def _open(
    context: WebContext, connection_id: str, repo_id: str | None
) -> tuple[str, str] | None:
    """The platform and the secret."""
    try:
        if repo_id is not None:
            return await open_registered_secret(context.db, context.keys, connection_id, repo_id)
        opened = await open_hook_secret(context.db, context.keys, connection_id)
        return None if opened is None else (opened[0].platform, opened[1])
    except DecryptionFailed:
        raise Problem(
            "unavailable", "This hook cannot be verified now; see the service's log."
        ) from None


async def _check_headers(request: Request) -> None:
    check_content_encoding(request.scope)
    content_length = request.headers.get("content-length", "")
    if content_length.isdecimal() and (
        len(content_length) > 15 or int(content_length) > MAX_HOOK_BYTES
    ):
        await _discard_body(request)
        raise _too_large()


async def _discard_body(request: Request) -> None:
    """A proxy that is still sending would answer with an error of its own."""
    received = limit_size(_MAX_DISCARDED_BYTES, receive_pieces(request.receive))
    with contextlib.suppress(Problem, TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            async for _ in received:
                pass


async def _body(request: Request, memory: BodyMemory | None) -> bytes:
    """If memory is short, the body is read and discarded. Raises DeliveryDropped."""
    received = limit_size(MAX_HOOK_BYTES, receive_pieces(request.receive))
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _collect(received, memory)
    except TimeoutError:
        raise HttpProblem(
            "request_timeout",
            f"The body did not arrive within {_BODY_SECONDS:.0f} seconds; send it again.",
            headers=_CLOSING,
        ) from None
    except Problem as problem:
        if problem.code != "payload_too_large":
            raise
        await _discard_body(request)
        raise _too_large() from None


async def _collect(received: AsyncIterator[bytes], memory: BodyMemory | None) -> bytes:
    """The rest of a body that is dropped is read too: a response before would be lost."""
    pieces: list[bytes] = []
    is_dropped = False
    async for piece in received:
        if memory is None or is_dropped:
            continue
        if memory.add(len(piece)):
            pieces.append(piece)
        else:
            is_dropped = True
            pieces.clear()
            memory.release()
    if is_dropped:
        raise DeliveryDropped
    return b"".join(pieces)


def _unauthorized() -> Problem:
    return HttpProblem(
        "unauthorized",
        "The hook does not exist, or its secret is wrong; copy both from the connection"
        " (`agentjobs platforms show`, `agentjobs platforms rotate-hook-secret`).",
        # The body may still be arriving.
        headers=_CLOSING,
    )


def _too_large() -> Problem:
    return HttpProblem(
        "payload_too_large",
        f"The body is larger than {MAX_HOOK_BYTES} bytes and was not processed.",
        # The rest of the body may still be arriving, so the connection cannot be reused.
        headers=_CLOSING,
    )


routes: list[BaseRoute] = [
    Route("/hooks/{platform}/{connection_id}", receive_hook, methods=["POST"]),
    Route("/hooks/{platform}/{connection_id}/{repo_id}", receive_hook, methods=["POST"]),
]

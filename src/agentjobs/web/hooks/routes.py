"""`/hooks/{platform}/{connection_id}`: where platforms tell that something happened.

Believes who knows the connection's secret, remembers the hint, answers. Nothing is started here.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.connections.connections import open_hook_secret
from agentjobs.forges.connection import Connection
from agentjobs.forges.hooks import (
    HookEvent,
    delivery_id_of,
    is_signed,
    lacks_signature,
    parse_event,
)
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.problems import Problem
from agentjobs.web.api.endpoint import Reply
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.headers import media_type
from agentjobs.web.context import WebContext
from agentjobs.web.git.body import at_most, received_pieces
from agentjobs.web.hooks.limits import HookLimits, Room

MOST_HOOK_BYTES = 5 * 1024 * 1024
_BODY_SECONDS = 60.0
_CLOSING = {"Connection": "close"}
_WORDS = {"new": "accepted", "known": "known", "unconnected": "ignored"}
_log = logging.getLogger(__name__)


async def receive_hook(request: Request) -> Response:
    _refuse_by_head(request)
    context: WebContext = request.app.state.context
    connection_id: str = request.path_params["connection_id"]
    hint, delivery_id = await _believed(request, context, connection_id)
    noted = await record_hook_delivery(context.db, connection_id, delivery_id, hint)
    return Reply(202, {"status": _WORDS[noted]})


async def _believed(
    request: Request, context: WebContext, connection_id: str
) -> tuple[HookEvent | None, str]:
    """What it hints at, and its name. What is unknown and what is wrong are refused alike."""
    platform, headers = request.path_params["platform"], request.headers
    secret = await _secret(context, platform, connection_id)
    if lacks_signature(platform, secret, headers):
        raise _unauthorized()
    limits = _limits(request)
    with limits.room(connection_id) as room:
        # A stranger's is let come all the same, so that the time tells no more than the answer.
        body = await _body(request, room if secret else None)
        if not is_signed(platform, secret, headers, body):
            raise _unauthorized()
        limits.take(connection_id)
        if media_type(headers.get("content-type")) == "application/x-www-form-urlencoded":
            raise Problem(
                "unsupported_media_type", "Set the content type of this hook to application/json."
            )
        return parse_event(platform, headers, body), delivery_id_of(platform, headers, body)


async def _secret(context: WebContext, platform: str, connection_id: str) -> str:
    """Empty where there is no such connection."""
    found = await _opened(context, connection_id) if connection_id.isascii() else None
    return found[1] if found is not None and found[0].platform == platform else ""


async def _opened(context: WebContext, connection_id: str) -> tuple[Connection, str] | None:
    try:
        return await open_hook_secret(context.db, context.keys, connection_id)
    except Problem as problem:
        _log.warning("a hook cannot be checked: %s", problem.message)
        raise Problem(
            "unavailable", "This hook cannot be checked now; the operator's log says why."
        ) from None


def _limits(request: Request) -> HookLimits:
    """Those of this process."""
    state = request.app.state
    if not hasattr(state, "hook_limits"):
        state.hook_limits = HookLimits()
    limits: HookLimits = state.hook_limits
    return limits


def _refuse_by_head(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Problem("unsupported_media_type", "The body must not be packed; send it as it is.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > MOST_HOOK_BYTES):
        raise _too_large()


async def _body(request: Request, room: Room | None) -> bytes:
    """Without room it comes and is forgotten at once."""
    received = at_most(MOST_HOOK_BYTES, received_pieces(request.receive))
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return b"".join([piece async for piece in _kept(received, room)])
    except TimeoutError:
        raise HttpProblem(
            "request_timeout",
            f"The body did not arrive within {_BODY_SECONDS:.0f} seconds; send it again.",
            headers=_CLOSING,
        ) from None
    except Problem as problem:
        raise _too_large() if problem.code == "payload_too_large" else problem from None


async def _kept(received: AsyncIterator[bytes], room: Room | None) -> AsyncIterator[bytes]:
    async for piece in received:
        if room is not None:
            room.hold(len(piece))
            yield piece


def _unauthorized() -> Problem:
    return HttpProblem(
        "unauthorized",
        "There is no such hook, or its secret is another one; copy both from the connection"
        " (`agentjobs forges show`, `agentjobs forges rotate-hook-secret`).",
        # Its body may still be on its way.
        headers=_CLOSING,
    )


def _too_large() -> Problem:
    return HttpProblem(
        "payload_too_large",
        f"The body is larger than {MOST_HOOK_BYTES} bytes; nothing of it was looked at.",
        # The rest is still on its way: this connection cannot carry another request.
        headers=_CLOSING,
    )


routes: list[BaseRoute] = [
    Route("/hooks/{platform}/{connection_id}", receive_hook, methods=["POST"])
]

"""`/hooks/{platform}/{connection_id}`: where platforms tell that something happened.

Believes who knows the connection's secret, remembers the hint, answers. Nothing is started here.
"""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.forges.connections import Connection, open_hook_secret
from agentjobs.forges.hints import note_delivery
from agentjobs.forges.hooks import delivery_id_of, hint_of, verified
from agentjobs.problems import Problem
from agentjobs.web.api.endpoint import Reply
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.headers import media_type
from agentjobs.web.context import WebContext
from agentjobs.web.git_body import at_most, received_pieces

MOST_HOOK_BYTES = 5 * 1024 * 1024
_BODY_SECONDS = 60.0
_CLOSING = {"Connection": "close"}
_log = logging.getLogger(__name__)


async def receive_hook(request: Request) -> Response:
    platform = request.path_params["platform"]
    body = await _body(request)
    connection_id = await _known_sender(request, platform, body)
    if media_type(request.headers.get("content-type")) == "application/x-www-form-urlencoded":
        raise Problem(
            "unsupported_media_type", "Set the content type of this hook to application/json."
        )
    hint = hint_of(platform, request.headers, body)
    delivery_id = delivery_id_of(platform, request.headers, body)
    context: WebContext = request.app.state.context
    is_new = await note_delivery(context.db, connection_id, delivery_id, hint)
    status = "known" if not is_new else "ignored" if hint is None else "accepted"
    return Reply(202, {"status": status})


async def _known_sender(request: Request, platform: str, body: bytes) -> str:
    """The connection's identifier. What is unknown and what is wrong are refused alike."""
    context: WebContext = request.app.state.context
    connection_id: str = request.path_params["connection_id"]
    found = await _opened(context, connection_id) if connection_id.isascii() else None
    secret = found[1] if found is not None and found[0].platform == platform else ""
    if not verified(platform, secret, request.headers, body):
        raise Problem(
            "unauthorized",
            "There is no such hook, or its secret is another one; copy both from the connection"
            " (`agentjobs forges show`, `agentjobs forges rotate-hook-secret`).",
        )
    return connection_id


async def _opened(context: WebContext, connection_id: str) -> tuple[Connection, str] | None:
    try:
        return await open_hook_secret(context.db, context.keys, connection_id)
    except Problem as problem:
        _log.warning("a hook cannot be checked: %s", problem.message)
        raise Problem(
            "unavailable", "This hook cannot be checked now; the operator's log says why."
        ) from None


async def _body(request: Request) -> bytes:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Problem("unsupported_media_type", "The body must not be packed; send it as it is.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > MOST_HOOK_BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            received = at_most(MOST_HOOK_BYTES, received_pieces(request.receive))
            return b"".join([piece async for piece in received])
    except TimeoutError:
        raise HttpProblem(
            "request_timeout",
            f"The body did not arrive within {_BODY_SECONDS:.0f} seconds; send it again.",
            headers=_CLOSING,
        ) from None
    except Problem:
        raise _too_large() from None


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

"""Waits for a result on behalf of a client, as long as it is connected and its key is valid."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect

from agentjobs.web.api.auth import unauthorized, wait_until_revoked
from agentjobs.web.api.connected import Interruption, run_while_connected
from agentjobs.web.api.endpoint import Call
from agentjobs.web.api.errors import stopping

T = TypeVar("T")


async def long_poll(call: Call, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
    """The result of the work; None if the service stops meanwhile."""
    context = call.context
    if context.stopping.is_set():
        # An immediate response would make a polling client spin.
        raise stopping()
    with context.open_requests.hold(call.caller.key_id):
        revoked = wait_until_revoked(context, call.scope)
        result = await run_while_connected(work(), call.receive, context.stopping, revoked)
    if result is Interruption.KEY:
        raise unauthorized()
    if result is Interruption.CLIENT:
        raise ClientDisconnect
    return None if isinstance(result, Interruption) else result

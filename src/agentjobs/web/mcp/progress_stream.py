"""A call answered with a stream of events, for protocol versions before 2026.

The package would start a task for its stream that polls twice a second for as long as the process
lives.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext
from starlette.types import Send

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Otherwise nginx buffers events.
    (b"x-accel-buffering", b"no"),
]


async def stream_call(
    server: Server[Any], message: Mapping[str, Any], version: str, send: Send
) -> None:
    """`message` is a request with a progress token."""
    stream = _Stream(message, send)
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    connection = Connection.from_envelope(version, None, None)
    try:
        result = await serve_one(
            server,
            stream,
            message["method"],
            message["params"],
            connection=connection,
            lifespan_state={},
        )
        answer: dict[str, Any] = {"result": result}
    except Exception as error:  # noqa: BLE001 - every exception becomes the error of the response
        answer = {"error": modern_error_data(error).model_dump(exclude_none=True)}
    await stream.write({"id": message["id"], **answer})
    await send({"type": "http.response.body", "body": b""})


class _Stream:
    """What a handler of the package needs of a connection: a way to send notifications."""

    transport = TransportContext(kind="streamable-http", can_send_request=False)
    can_send_request = False
    message_metadata = None

    def __init__(self, message: Mapping[str, Any], send: Send) -> None:
        self.request_id = message["id"]
        self.cancel_requested = anyio.Event()
        self._token = message["params"]["_meta"]["progressToken"]
        self._send = send

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002 - the protocol of the package
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> None:
        await self.write({"method": method, "params": params or {}})

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        params = {"progressToken": self._token, "progress": progress}
        optional = {"total": total, "message": message}
        given = {name: value for name, value in optional.items() if value is not None}
        await self.notify("notifications/progress", {**params, **given})

    async def write(self, fields: Mapping[str, Any]) -> None:
        data = msgspec.json.encode({"jsonrpc": "2.0", **fields})
        body = b"event: message\ndata: " + data + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

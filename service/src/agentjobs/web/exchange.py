"""One request and its response: the request id, the status, and how the response is sent."""

import random
import re
import time
from collections.abc import Callable

from starlette.types import Message, Scope, Send

from agentjobs.web.api.headers import all_headers

# In the scope: the Exchange, and from the HTTP protocol a function that writes a whole response
# and the body of a request that arrived together with its head.
EXCHANGE = "agentjobs.exchange"
WRITER = "agentjobs.writer"
WHOLE_BODY = "agentjobs.whole_body"

Headers = tuple[tuple[bytes, bytes], ...]
RateLimit = tuple[int, int, int]
"""How many requests the API key may send at once, how many are left, and the seconds until all of
them are available again."""

Writer = Callable[[int, Headers, bytes, bytes, bytes], bool]
"""Writes status, headers, further header lines, request id and body at once, and the length of the
body; False, and nothing is written, if that is impossible."""

_RATE_LIMIT_NAMES = (b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset")
_RATE_LIMIT_LINES = b"".join(b"%b: %%d\r\n" % name for name in _RATE_LIMIT_NAMES)

_is_valid_id = re.compile(rb"[A-Za-z0-9._:-]{1,128}").fullmatch


class Exchange:
    """`status` is 0 until the response starts; `rate_limit` is None if the response has none.

    `headers` are added to the response, whether it succeeds or not.
    """

    __slots__ = ("_send", "_writer", "headers", "rate_limit", "request_id", "started_at", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self.started_at = time.perf_counter()
        self.request_id = _incoming_id(scope) or new_request_id()
        self.status = 0
        self.rate_limit: RateLimit | None = None
        self.headers: Headers = ()
        self._send = send
        self._writer: Writer | None = scope.get(WRITER)
        scope[EXCHANGE] = self

    def detach(self, scope: Scope) -> None:
        """References in a circle would be left to the garbage collector."""
        scope.pop(EXCHANGE, None)
        scope.pop(WRITER, None)

    def write(self, status: int, headers: Headers, body: bytes) -> bool:
        """Send a whole response without the messages of ASGI; False if only `send` can.

        `headers` are those that many responses have in common.
        """
        if self._writer is None or self.status:
            return False
        lines = b"" if self.rate_limit is None else _RATE_LIMIT_LINES % self.rate_limit
        if not self._writer(status, headers + self.headers, lines, self.request_id, body):
            return False
        self.status = status
        return True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = [(b"x-request-id", self.request_id), *self.headers]
            if self.rate_limit is not None:
                values = (b"%d" % value for value in self.rate_limit)
                own += zip(_RATE_LIMIT_NAMES, values, strict=True)
            message = {**message, "headers": (*message.get("headers", ()), *own)}
        await self._send(message)


def new_request_id() -> bytes:
    # Unique, but no secret: a number from the system's generator would cost a system call.
    return b"req_%024x" % random.getrandbits(96)


def _incoming_id(scope: Scope) -> bytes | None:
    values = all_headers(scope, b"x-request-id")
    return values[0] if len(values) == 1 and _is_valid_id(values[0]) else None

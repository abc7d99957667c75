"""Reads the bodies of an agent's HTTP requests, limited in size and time."""

import asyncio

from aiohttp import web

from agentjobs_runtime.sandbox_http.errors import RequestRefused

MAX_BYTES = 32 * 1024 * 1024
SILENCE_SECONDS = 30.0
_TOO_LARGE = "the request is larger than 32 MiB"


class BodyReader:
    """Reads the bodies of one job's requests and bounds their total size in memory."""

    def __init__(self, max_bytes: int = 4 * MAX_BYTES) -> None:
        self._free = max_bytes

    async def read(self, request: web.BaseRequest) -> bytes:
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RequestRefused(400, "invalid_request", "send the request without compression")
        if (request.content_length or 0) > MAX_BYTES:
            raise RequestRefused(413, "request_too_large", _TOO_LARGE)
        invite_body(request)
        return await self._collect(request)

    async def _collect(self, request: web.BaseRequest) -> bytes:
        content = bytearray()
        try:
            while chunk := await read_chunk(request):
                content += chunk
                self._free -= len(chunk)
                if len(content) > MAX_BYTES:
                    raise RequestRefused(413, "request_too_large", _TOO_LARGE)
                if self._free < 0:
                    message = "too many large requests at once; try again when one has finished"
                    raise RequestRefused(429, "too_many_requests", message, is_retryable=True)
        except BaseException:
            self.release(len(content))
            raise
        return bytes(content)

    def release(self, size: int) -> None:
        """Free the bytes of a body that is no longer in memory."""
        self._free += size


def invite_body(request: web.BaseRequest) -> None:
    """Some clients send their body only after this response."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def read_chunk(request: web.BaseRequest) -> bytes:
    """The timeout also ends bodies that never complete."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await request.content.readany()
    except TimeoutError:
        raise RequestRefused(
            408, "request_timeout", "the rest of the request did not arrive in time"
        ) from None
    except web.RequestPayloadError:
        raise RequestRefused(
            400, "invalid_request", "the body does not match its headers"
        ) from None

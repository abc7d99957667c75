"""Reads an agent's HTTP request: its token, its endpoint and its size-limited body."""

import asyncio
import hmac
from urllib.parse import unquote_to_bytes

from aiohttp import web

from agentjobs.gateway.endpoints import ENDPOINTS, Endpoint
from agentjobs.gateway.errors import RequestRefused
from agentjobs.gateway.upstream import Api

MAX_BYTES = 32 * 1024 * 1024
MAX_QUERY = 1_024
SILENCE_SECONDS = 30.0
_TOO_LARGE = "the request is larger than 32 MiB"


def check_token(request: web.BaseRequest, token: str) -> None:
    given = request.headers.get("x-api-key") or ""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        given = value.strip() or given
    if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
        raise RequestRefused(
            401, "invalid_api_key", "use the job's own key from its environment variable"
        )


def endpoint_of(request: web.BaseRequest, api: Api) -> Endpoint:
    endpoint = ENDPOINTS.get(request.path)
    if request.method == "POST" and endpoint is not None and endpoint.api == api:
        _check_query(request.rel_url.raw_query_string)
        return endpoint
    paths = [path for path, endpoint in ENDPOINTS.items() if endpoint.api == api]
    served = " and ".join(f"POST {path}" for path in paths)
    raise RequestRefused(404, "not_found", f"this gateway serves only {served}")


def _check_query(raw: str) -> None:
    if len(raw) > MAX_QUERY:
        raise RequestRefused(400, "invalid_request", "the query string is too long")
    if not raw.isascii() or any(byte < 0x20 or byte == 0x7F for byte in unquote_to_bytes(raw)):
        raise RequestRefused(400, "invalid_request", "the query string contains control characters")


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

"""Sends a call to the provider and streams the response to the agent.

Applies the reported usage to the charge; knows nothing about limits.
"""

import asyncio
import io
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp import web

from agentjobs.gateway.budget import Charge
from agentjobs.gateway.calls import Call
from agentjobs.gateway.headers import agent_headers, provider_headers, select_betas
from agentjobs.gateway.responses import usage_reader
from agentjobs_runtime.outbound.guard.failures import describe_failure
from agentjobs_runtime.safe_text import ellipsize, mask_unprintable
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.sandbox_http.key_filter import KeyFilter
from agentjobs_runtime.sandbox_http.port_server import abort
from agentjobs_runtime.upstream import Upstream

CONNECT_SECONDS = 10
SILENCE_SECONDS = 900
"""How long a model may compute without output; the job's own timeout still applies."""
_MAX_ERROR_BYTES = 256 * 1024
_ERROR_SECONDS = 30
_LARGE = 1024 * 1024
"""Larger bodies are written in chunks, so that they do not block the event loop."""
# After any other error the provider may have done the work, so the request stays charged.
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
)
_KEY_REFUSED = (
    "the model provider rejected the organization's key; an admin can replace it with"
    " `agentjobs secrets set`"
)
_KEY_UNUSABLE = (
    "the organization's key contains a line break or another control character; an admin can"
    " replace it with `agentjobs secrets set`"
)
_OPTIONS_REMOVED = (
    "options that are not known to be free were left out of a request, because a budget applies"
)
_MAX_NOTED_OPTIONS = 200
_NO_USAGE = (
    "the model provider did not report a plausible token usage for a response, so the reserved"
    " cost was charged"
)


class UpstreamError(RequestRefused):
    """The provider failed; `note` is for the job's log, the message for the agent."""

    def __init__(self, status: int, code: str, message: str, note: str) -> None:
        super().__init__(status, code, message, is_retryable=status >= 500)
        self.note = note


class Relay:
    """`on_note` receives lines for the job's log."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        upstream: Upstream,
        on_note: Callable[[str], None],
    ) -> None:
        self._session = session
        self._upstream = upstream
        self._on_note = on_note
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )

    async def forward(
        self, request: web.BaseRequest, call: Call, charge: Charge
    ) -> web.StreamResponse:
        """Raises RequestRefused only before the response has started."""
        if not self._upstream.key.isprintable():
            charge.waive()
            raise UpstreamError(502, "provider_key_unusable", _KEY_UNUSABLE, _KEY_UNUSABLE)
        try:
            upstream_response = await self._send(request, call)
        except _NOT_SENT as error:
            charge.waive()
            raise _unreachable(error) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unreachable(error) from None
        async with upstream_response:
            if upstream_response.status // 100 == 2:
                return await self._stream(request, call, charge, upstream_response)
            charge.waive()
            return await self._failure(upstream_response)

    async def _send(self, request: web.BaseRequest, call: Call) -> aiohttp.ClientResponse:
        return await self._session.post(
            self._upstream.address(call.endpoint.path, request.rel_url.raw_query_string),
            data=call.body if len(call.body) < _LARGE else io.BytesIO(call.body),
            headers=provider_headers(request.headers, self._upstream, self._betas(request, call)),
            allow_redirects=False,
            timeout=self._timeout,
        )

    def _betas(self, request: web.BaseRequest, call: Call) -> dict[str, str]:
        betas, removed = select_betas(request.headers, has_limit=call.has_limit)
        if removed := [*call.unknown_fields, *removed]:
            names = mask_unprintable(ellipsize(", ".join(removed), _MAX_NOTED_OPTIONS))
            self._on_note(f"{_OPTIONS_REMOVED}: {names}")
        return betas

    async def _stream(
        self,
        request: web.BaseRequest,
        call: Call,
        charge: Charge,
        upstream_response: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        headers = agent_headers(upstream_response.headers, self._upstream)
        response = web.StreamResponse(status=upstream_response.status, headers=headers)
        key_filter = KeyFilter(self._upstream.key)
        reader = usage_reader(
            call.endpoint,
            upstream_response.headers.get("content-type", ""),
            hide_usage=call.hide_usage,
        )
        complete = False
        try:
            await response.prepare(request)
            async for chunk in upstream_response.content.iter_any():
                if passed := key_filter.feed(reader.feed(chunk)):
                    await response.write(passed)
            if rest := key_filter.feed(reader.end()) + key_filter.end():
                await response.write(rest)
            complete = True
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            abort(request)
        finally:
            is_applied = reader.usage is not None and charge.apply_usage(reader.usage)
            if not is_applied and reader.partial_usage is not None:
                charge.apply_partial_usage(reader.partial_usage)
            if complete and not is_applied:
                self._on_note(_NO_USAGE)
        return response

    async def _failure(self, upstream_response: aiohttp.ClientResponse) -> web.Response:
        """The provider's error response, with the key redacted."""
        if upstream_response.status == 401:
            raise UpstreamError(401, "provider_key_refused", _KEY_REFUSED, _KEY_REFUSED)
        if upstream_response.status // 100 == 3:
            note = "the model provider responded with a redirect: set model_url to its target"
            raise UpstreamError(502, "provider_redirected", note, note)
        if upstream_response.status < 200:
            raise _unreachable(ValueError(f"it responded with status {upstream_response.status}"))
        content = await self._read_error_body(upstream_response)
        headers = agent_headers(upstream_response.headers, self._upstream)
        return web.Response(status=upstream_response.status, body=content, headers=headers)

    async def _read_error_body(self, upstream_response: aiohttp.ClientResponse) -> bytes:
        key_filter = KeyFilter(self._upstream.key, min_length=1)
        content, size = b"", 0
        with suppress(aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(_ERROR_SECONDS):
                while chunk := await upstream_response.content.read(_MAX_ERROR_BYTES - size):
                    size += len(chunk)
                    content += key_filter.feed(chunk)
                # A truncated body may end with the beginning of the key.
                content += key_filter.end() if upstream_response.content.at_eof() else b""
        return content


def _unreachable(error: Exception) -> UpstreamError:
    return UpstreamError(
        502,
        "provider_unreachable",
        "the model provider cannot be reached; try again",
        f"the model provider cannot be reached: {describe_failure(error)}",
    )

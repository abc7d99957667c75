"""Sends a call to the provider and passes the answer on as it comes.

Says what the call cost as far as the answer tells it; keeps no books and knows no limits.
"""

import asyncio
import io
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp import web

from agentjobs.gateway.budget import Charge
from agentjobs.gateway.calls import Call
from agentjobs.gateway.errors import RequestRefused
from agentjobs.gateway.headers import to_agent, to_provider
from agentjobs.gateway.key_filter import KeyFilter
from agentjobs.gateway.responses import reader_for
from agentjobs.gateway.upstream import Upstream

CONNECT_SECONDS = 10
SILENCE_SECONDS = 900
"""As long as a model may think without a word; the job's own clock is the stricter one."""
_MAX_ERROR_BYTES = 256 * 1024
_ERROR_SECONDS = 30
_LARGE = 1024 * 1024
"""From here on in pieces, so that writing it does not hold up the event loop."""
# All else leaves it open what the provider did, and the request charged.
_NOTHING_WAS_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
)
_KEY_REFUSED = (
    "the model provider refused the organization's key; an administrator can store another with"
    " `agentjobs secrets set`"
)
_KEY_UNUSABLE = (
    "the organization's key holds a line break or the like, which no request can carry; an"
    " administrator can store it again with `agentjobs secrets set`"
)

_NO_USAGE = (
    "the model provider did not say in a credible way how many tokens an answer took: such an"
    " answer is charged what was reserved for it"
)


class UpstreamTrouble(RequestRefused):
    """The provider cannot be used; `note` is for the job's log, the message for the agent."""

    def __init__(self, status: int, code: str, message: str, note: str) -> None:
        super().__init__(status, code, message, again=status >= 500)
        self.note = note


class Relay:
    """`on_note` takes lines for the job's log."""

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

    async def pass_on(
        self, request: web.BaseRequest, call: Call, charge: Charge
    ) -> web.StreamResponse:
        """Raises RequestRefused while nothing was answered yet."""
        if not self._upstream.key.isprintable():
            charge.nothing()
            raise UpstreamTrouble(502, "provider_key_unusable", _KEY_UNUSABLE, _KEY_UNUSABLE)
        try:
            answer = await self._send(request, call)
        except _NOTHING_WAS_SENT as error:
            charge.nothing()
            raise _away(error) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _away(error) from None
        async with answer:
            if answer.status // 100 == 2:
                return await self._stream(request, call, charge, answer)
            charge.nothing()
            return await self._failure(answer)

    async def _send(self, request: web.BaseRequest, call: Call) -> aiohttp.ClientResponse:
        return await self._session.post(
            self._upstream.address(call.endpoint.path, request.rel_url.raw_query_string),
            data=call.body if len(call.body) < _LARGE else io.BytesIO(call.body),
            headers=to_provider(request.headers, self._upstream),
            allow_redirects=False,
            timeout=self._timeout,
        )

    async def _stream(
        self,
        request: web.BaseRequest,
        call: Call,
        charge: Charge,
        answer: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        headers = to_agent(answer.headers, self._upstream)
        response = web.StreamResponse(status=answer.status, headers=headers)
        keyless = KeyFilter(self._upstream.key)
        reader = reader_for(
            call.endpoint,
            answer.headers.get("content-type", ""),
            usage_is_ours=call.usage_is_ours,
        )
        complete = False
        try:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if passed := keyless.feed(reader.feed(chunk)):
                    await response.write(passed)
            if rest := keyless.feed(reader.end()) + keyless.end():
                await response.write(rest)
            complete = True
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            _cut(request)
        finally:
            told = reader.usage is not None and charge.used(reader.usage)
            if complete and not told:
                self._on_note(_NO_USAGE)
        return response

    async def _failure(self, answer: aiohttp.ClientResponse) -> web.Response:
        """The provider's own words, but never with the key in them."""
        if answer.status == 401:
            raise UpstreamTrouble(401, "provider_key_refused", _KEY_REFUSED, _KEY_REFUSED)
        if answer.status // 100 == 3:
            note = "the model provider answered with a redirect: set model_url to where it leads"
            raise UpstreamTrouble(502, "provider_redirected", note, note)
        if answer.status < 200:
            raise _away(ValueError(f"it answered with the status {answer.status}"))
        content = await self._beginning(answer)
        headers = to_agent(answer.headers, self._upstream)
        return web.Response(status=answer.status, body=content, headers=headers)

    async def _beginning(self, answer: aiohttp.ClientResponse) -> bytes:
        keyless = KeyFilter(self._upstream.key, least=1)
        content, size = b"", 0
        with suppress(aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(_ERROR_SECONDS):
                while chunk := await answer.content.read(_MAX_ERROR_BYTES - size):
                    size += len(chunk)
                    content += keyless.feed(chunk)
                # What is cut off may end with the beginning of the key.
                content += keyless.end() if answer.content.at_eof() else b""
        return content


def _away(error: Exception) -> UpstreamTrouble:
    # aiohttp's own words leave out what the guard said.
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    reason = str(cause) or "no answer in time"
    return UpstreamTrouble(
        502,
        "provider_unreachable",
        "the model provider cannot be reached; try again",
        f"the model provider cannot be reached: {reason}",
    )


def _cut(request: web.BaseRequest) -> None:
    """End the connection in the middle, as the provider did: nobody may take it for complete."""
    if request.transport is not None:
        request.transport.abort()

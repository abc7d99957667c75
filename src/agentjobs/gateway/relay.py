"""Sends a call to the provider and passes the answer on as it comes.

Says what the call cost as far as the answer tells it; keeps no books and knows no limits.
"""

import io
from contextlib import suppress

import aiohttp
from aiohttp import web

from agentjobs.gateway.answers import reader_for
from agentjobs.gateway.budget import Charge
from agentjobs.gateway.calls import Call
from agentjobs.gateway.headers import to_agent, to_provider
from agentjobs.gateway.refusals import Refused
from agentjobs.gateway.upstream import Upstream

CONNECT_SECONDS = 10
SILENCE_SECONDS = 900
"""As long as a model may think without a word; the job's own clock is the stricter one."""
_MOST_ERROR_BYTES = 256 * 1024
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


class UpstreamTrouble(Refused):
    """The provider cannot be used; `note` is for the job's log, the message for the agent."""

    def __init__(self, status: int, code: str, message: str, note: str) -> None:
        super().__init__(status, code, message, again=status >= 500)
        self.note = note


class Relay:
    def __init__(self, session: aiohttp.ClientSession, upstream: Upstream) -> None:
        self._session = session
        self._upstream = upstream
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )

    async def pass_on(
        self, request: web.BaseRequest, call: Call, charge: Charge
    ) -> web.StreamResponse:
        """Raises Refused while nothing was answered yet."""
        try:
            answer = await self._send(request, call)
        except _NOTHING_WAS_SENT as error:
            charge.nothing()
            raise _away(error) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _away(error) from None
        except ValueError:
            charge.nothing()
            raise UpstreamTrouble(
                502, "provider_key_unusable", _KEY_UNUSABLE, _KEY_UNUSABLE
            ) from None
        async with answer:
            if answer.status // 100 == 2:
                return await self._stream(request, call, charge, answer)
            charge.nothing()
            return await self._failure(answer)

    async def _send(self, request: web.BaseRequest, call: Call) -> aiohttp.ClientResponse:
        return await self._session.post(
            self._upstream.address(call.endpoint.path, request.query_string),
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
        response = web.StreamResponse(status=answer.status, headers=to_agent(answer.headers))
        reader = reader_for(
            call.endpoint,
            answer.headers.get("content-type", ""),
            usage_is_ours=call.usage_is_ours,
        )
        try:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if passed := reader.feed(chunk):
                    await response.write(passed)
            if rest := reader.end():
                await response.write(rest)
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            _cut(request)
        finally:
            if reader.usage is not None:
                charge.used(reader.usage)
        return response

    async def _failure(self, answer: aiohttp.ClientResponse) -> web.Response:
        """The provider's own words, but never with the key in them."""
        if answer.status == 401:
            raise UpstreamTrouble(401, "provider_key_refused", _KEY_REFUSED, _KEY_REFUSED)
        if answer.status // 100 == 3:
            note = "the model provider answered with a redirect: set model_url to where it leads"
            raise UpstreamTrouble(502, "provider_redirected", note, note)
        content = b""
        with suppress(aiohttp.ClientError, TimeoutError):
            content = await answer.content.read(_MOST_ERROR_BYTES)
        content = content.replace(self._upstream.key.encode(), b"[redacted]")
        return web.Response(status=answer.status, body=content, headers=to_agent(answer.headers))


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

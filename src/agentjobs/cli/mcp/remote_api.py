"""The REST API of another process, for the tools, with the retries of the client package."""

import asyncio
import uuid

import httpx

from agentjobs.web.mcp.rest_api import RestError, RestRequest, RestResponse
from agentjobs_client import ApiError, ClientError, ServiceUnreachable
from agentjobs_client.async_http import AsyncHttp
from agentjobs_client.call import Call, encode_body
from agentjobs_client.calls import get_caller

# Clients wait for the list of tools when they start.
_SCOPE_SECONDS = 5.0


class RemoteApi(AsyncHttp):
    _is_read_only: bool | None = None

    async def send(self, request: RestRequest) -> RestResponse:
        try:
            return await self._send(_call(request))
        except ApiError as error:
            raise RestError(error.code, error.message, error.details) from None
        except ServiceUnreachable as error:
            raise RestError("service_unreachable", str(error)) from None
        except ClientError as error:
            raise RestError("unexpected_response", str(error)) from None

    async def is_read_only(self) -> bool:
        """False if the service does not say at once: it refuses what the key may not do."""
        if self._is_read_only is None:
            try:
                async with asyncio.timeout(_SCOPE_SECONDS):
                    caller = await self._send_once(get_caller())
            except (ClientError, TimeoutError):
                return False
            self._is_read_only = "jobs" not in caller.key.scopes
        return self._is_read_only


def _call(request: RestRequest) -> Call[RestResponse]:
    headers = {"Accept": request.accept}
    if request.method == "POST":
        # Without it, retrying a call whose response was lost would create a second job.
        headers["Idempotency-Key"] = str(uuid.uuid4())
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    return Call(
        request.method,
        request.path,
        _response,
        params=request.query,
        headers=headers,
        content=None if request.body is None else encode_body(request.body),
        wait_seconds=request.wait_seconds,
    )


def _response(response: httpx.Response) -> RestResponse:
    return RestResponse(response.content, response.headers)

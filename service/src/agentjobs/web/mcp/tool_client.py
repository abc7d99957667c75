"""The Python client as tools use it, with single pages of listings and the end of a log."""

import asyncio
from contextvars import ContextVar
from typing import TypeVar

import httpx
import msgspec

from agentjobs_client import AsyncClient, ClientError
from agentjobs_client.call import Call, Listing, Page
from agentjobs_client.calls import get_caller, get_logs

T = TypeVar("T")

# Clients wait for the list of tools when they start.
_SCOPE_SECONDS = 5.0
_LOG_TRUNCATED_HEADER = "X-Log-Truncated"


class ToolClient(AsyncClient):
    _is_read_only: bool | None = None

    async def page(self, listing: Listing[T], limit: int, cursor: str | None) -> Page[T]:
        call = listing(cursor)
        params = {**(call.params or {}), "limit": str(limit)}
        return await self._send(msgspec.structs.replace(call, params=params))

    async def log_end(self, job_id: str, max_bytes: int) -> tuple[str, bool]:
        """The end of the log, and whether anything before it is missing."""

        def read(response: httpx.Response) -> tuple[str, bool]:
            # An earlier version of the service sends everything.
            is_cut = len(response.content) > max_bytes
            is_cut = is_cut or response.headers.get(_LOG_TRUNCATED_HEADER) == "true"
            return response.content[-max_bytes:].decode("utf-8", "replace"), is_cut

        call = get_logs(job_id, timestamps=False, tail_bytes=max_bytes)
        return await self._send(Call(call.method, call.path, read, call.params, call.headers))

    async def is_read_only(self) -> bool:
        """Whether the key may only read. False if the service does not say at once: it refuses
        what the key may not do."""
        if self._is_read_only is None:
            try:
                async with asyncio.timeout(_SCOPE_SECONDS):
                    caller = await self._send_once(get_caller())
            except (ClientError, TimeoutError):
                return False
            self._is_read_only = "jobs" not in caller.key.scopes
        return self._is_read_only


# The client of the message that the current task answers: one server serves all callers.
current_client: ContextVar[ToolClient] = ContextVar("current_client")

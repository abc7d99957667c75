"""`SyncHttp`, awaited: what `AsyncClient` builds on."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import httpx

from agentjobs_client import connection
from agentjobs_client.call import (
    Call,
    Listing,
    build_request,
    check_event_stream,
    check_progress,
    check_success,
    find_timeout,
)
from agentjobs_client.errors import ApiError, ClientError
from agentjobs_client.log_stream import LogStream
from agentjobs_client.poll import Poll
from agentjobs_client.retry import (
    DEFAULT_AWAY_SECONDS,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_SECONDS,
    Clock,
    RetryState,
)

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    # Programs that use only the other client need not import it.
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(seconds)


class AsyncHttp:
    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        ca_file: str | os.PathLike[str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        away_seconds: float = DEFAULT_AWAY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Callable[[float], Awaitable[None]] = sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        """`ca_file` names further certificates to trust, beside those of the machine or of
        SSL_CERT_FILE; by default those of AGENTJOBS_CA_FILE."""
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._away_seconds = away_seconds
        self._pause = pause
        self._clock = clock
        settings = connection.http_settings(base_url, api_key, ca_file)
        with connection.explained_settings():
            self._http = httpx.AsyncClient(**settings, transport=transport)

    @classmethod
    def from_environment(cls) -> Self:
        """From AGENTJOBS_URL and AGENTJOBS_API_KEY."""
        return cls(*connection.from_environment())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, call: Call[T], retry: RetryState | None = None) -> T:
        retry = retry or RetryState(retries=self._retries)
        while True:
            try:
                return await self._send_once(call)
            except ClientError as error:
                await self._pause(retry.delay_after(error))

    async def _send_or_check(
        self, call: Call[T], code: str, check: Call[T], is_done: Callable[[T], bool]
    ) -> T:
        """For calls that the service refuses with `code` once they have succeeded.

        If a response was lost, the refusal of the retry may mean success.
        """
        retry = RetryState(retries=self._retries)
        try:
            return await self._send(call, retry)
        except ApiError as error:
            if not retry.failures or error.code != code:
                raise
            result = await self._send(check)
            if not is_done(result):
                raise
            return result

    async def _items(self, listing: Listing[T]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self._send(listing(cursor))
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            cursor = check_progress(cursor, page)

    async def _poll(self, poll: Poll[T]) -> AsyncIterator[T]:
        while not poll.ended:
            try:
                response = await self._send_once(poll.next_call())
            except ClientError as error:
                await self._pause(poll.delay_after(error))
                continue
            if poll.update(response):
                yield response
            else:
                await self._pause(poll.delay())

    async def _follow(self, stream: LogStream) -> AsyncIterator[str]:
        while not stream.ended:
            try:
                async for text in self._read(stream):
                    yield text
            except ClientError as error:
                await self._pause(stream.delay_after(error))

    async def _read(self, stream: LogStream) -> AsyncIterator[str]:
        request = build_request(self._http, stream.call, stream.timeout)
        with connection.explained(self._http.base_url):
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                check_success(response)
                check_event_stream(response)
                async for text in response.aiter_text():
                    for piece in stream.feed(text):
                        yield piece
            finally:
                await response.aclose()
        stream.check_ended()

    async def _send_once(self, call: Call[T]) -> T:
        request = build_request(self._http, call, find_timeout(call, self._timeout_seconds))
        with connection.explained(self._http.base_url):
            response = await self._http.send(request)
        return call.parse(check_success(response))

    def _retry_while_away(self) -> RetryState:
        return RetryState(retries=self._retries, away_seconds=self._away_seconds, clock=self._clock)

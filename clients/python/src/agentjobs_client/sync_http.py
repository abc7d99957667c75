"""Sends calls, retries them, and repeats polls: what `Client` builds on."""

import os
import time
from collections.abc import Callable, Iterator
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


class SyncHttp:
    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        ca_file: str | os.PathLike[str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        away_seconds: float = DEFAULT_AWAY_SECONDS,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
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
            self._http = httpx.Client(**settings, transport=transport)

    @classmethod
    def from_environment(cls) -> Self:
        """From AGENTJOBS_URL and AGENTJOBS_API_KEY."""
        return cls(*connection.from_environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, call: Call[T], retry: RetryState | None = None) -> T:
        retry = retry or RetryState(retries=self._retries)
        while True:
            try:
                return self._send_once(call)
            except ClientError as error:
                self._pause(retry.delay_after(error))

    def _send_or_check(
        self, call: Call[T], code: str, check: Call[T], is_done: Callable[[T], bool]
    ) -> T:
        """For calls that the service refuses with `code` once they have succeeded.

        If a response was lost, the refusal of the retry may mean success.
        """
        retry = RetryState(retries=self._retries)
        try:
            return self._send(call, retry)
        except ApiError as error:
            if not retry.failures or error.code != code:
                raise
            result = self._send(check)
            if not is_done(result):
                raise
            return result

    def _items(self, listing: Listing[T]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._send(listing(cursor))
            yield from page.items
            if page.next_cursor is None:
                return
            cursor = check_progress(cursor, page)

    def _poll(self, poll: Poll[T]) -> Iterator[T]:
        while not poll.ended:
            try:
                response = self._send_once(poll.next_call())
            except ClientError as error:
                self._pause(poll.delay_after(error))
                continue
            if poll.update(response):
                yield response
            else:
                self._pause(poll.delay())

    def _follow(self, stream: LogStream) -> Iterator[str]:
        while not stream.ended:
            try:
                yield from self._read(stream)
            except ClientError as error:
                self._pause(stream.delay_after(error))

    def _read(self, stream: LogStream) -> Iterator[str]:
        request = build_request(self._http, stream.call, stream.timeout)
        with connection.explained(self._http.base_url):
            response = self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    response.read()
                check_success(response)
                check_event_stream(response)
                for text in response.iter_text():
                    yield from stream.feed(text)
            finally:
                response.close()
        stream.check_ended()

    def _send_once(self, call: Call[T]) -> T:
        request = build_request(self._http, call, find_timeout(call, self._timeout_seconds))
        with connection.explained(self._http.base_url):
            response = self._http.send(request)
        return call.parse(check_success(response))

    def _retry_while_away(self) -> RetryState:
        return RetryState(retries=self._retries, away_seconds=self._away_seconds, clock=self._clock)

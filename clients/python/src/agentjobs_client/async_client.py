"""The asynchronous client: the same calls as `Client`, awaited."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from agentjobs_client import calls
from agentjobs_client.calls import Call
from agentjobs_client.errors import ApiError, ClientError
from agentjobs_client.job_watch import JobWatch
from agentjobs_client.log_stream import LogStream
from agentjobs_client.models import (
    Agent,
    AgentList,
    Dependency,
    DependencyPage,
    Event,
    EventList,
    Job,
    JobPage,
    JobReceipt,
    Prompt,
    Repo,
    RepoList,
)
from agentjobs_client.retry import DEFAULT_AWAY_SECONDS, DEFAULT_RETRIES, Clock, RetryState

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    # Programs that use only the other client need not import it.
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(seconds)


class AsyncClient:
    """A client for one service with one API key, without blocking the event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout_seconds: float = calls.DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        away_seconds: float = DEFAULT_AWAY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Callable[[float], Awaitable[None]] = sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._away_seconds = away_seconds
        self._pause = pause
        self._clock = clock
        url = calls.normalize_base_url(base_url)
        self._http = httpx.AsyncClient(
            base_url=url,
            verify=calls.needs_certificates(url),
            headers=calls.base_headers(api_key),
            transport=transport,
        )

    @classmethod
    def from_environment(cls) -> Self:
        """From AGENTJOBS_URL and AGENTJOBS_API_KEY."""
        return cls(*calls.from_environment())

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

    async def agents(self) -> list[Agent]:
        return (await self._request(Call("GET", "/agents"), AgentList)).agents

    async def repos(self) -> list[Repo]:
        return (await self._request(Call("GET", "/repos"), RepoList)).repos

    async def dependencies(
        self,
        repo_id: str,
        *,
        ecosystem: str | None = None,
        direct: bool | None = None,
        vulnerable: bool = False,
        search: str | None = None,
    ) -> AsyncIterator[Dependency]:
        """The dependencies of a repository; pages are fetched as needed."""
        filters = calls.dependency_filters(ecosystem, direct, vulnerable, search)
        cursor: str | None = None
        while True:
            page = await self._request(
                calls.list_dependencies(repo_id, filters, cursor), DependencyPage
            )
            for dependency in page.dependencies:
                yield dependency
            cursor = page.next_cursor
            if cursor is None:
                return

    async def create_job(
        self,
        repo: str,
        agent: str,
        *,
        ticket_id: str | None = None,
        config_override: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> JobReceipt:
        """Queue a job. An `idempotency_key` is generated if none is given."""
        call = calls.create_job(repo, agent, ticket_id, config_override, idempotency_key)
        return await self._request(call, JobReceipt)

    async def follow_up(
        self,
        job_id: str,
        prompt: str,
        *,
        agent: str | None = None,
        timeout_seconds: int | None = None,
        max_cost_usd: float | None = None,
        priority: str | None = None,
        idempotency_key: str | None = None,
    ) -> JobReceipt:
        """Queue a follow-up on the pull request of a completed job."""
        call = calls.follow_up(
            job_id, prompt, agent, timeout_seconds, max_cost_usd, priority, idempotency_key
        )
        return await self._request(call, JobReceipt)

    async def job(self, job_id: str, wait_seconds: float | None = None) -> Job:
        """The job now, or as soon as its status changes within `wait_seconds` (at most 60)."""
        return await self._request(calls.get_job(job_id, wait_seconds), Job)

    async def wait(self, job_id: str) -> Job:
        """Wait until the job is finished, without a time limit."""
        return [job async for job in self.watch(job_id)][-1]

    async def watch(self, job_id: str) -> AsyncIterator[Job]:
        """The job now and after each change of its status, until it is finished.

        Survives restarts of the service, unless it is unavailable for more than `away_seconds`.
        """
        watch = JobWatch(job_id, self._retry_while_away(), self._clock)
        while not watch.ended:
            try:
                job = calls.read(await self._send_once(watch.next_call()), Job)
            except ClientError as error:
                await self._pause(watch.delay_after(error))
                continue
            if watch.update(job):
                yield job
            else:
                await self._pause(watch.delay_without_change())

    async def jobs(
        self, *, status: str | None = None, repo: str | None = None, agent: str | None = None
    ) -> AsyncIterator[Job]:
        """All jobs, newest first; pages are fetched as needed."""
        filters = {"status": status, "repo": repo, "agent": agent}
        cursor: str | None = None
        while True:
            page = await self._request(calls.list_jobs(filters, cursor), JobPage)
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def cancel(self, job_id: str) -> Job:
        call = Call("POST", calls.job_path(job_id, "cancel"))
        retry = RetryState(retries=self._retries)
        try:
            return calls.read(await self._send(call, retry), Job)
        except ApiError as error:
            if not calls.may_be_cancelled_already(error, retry.failures):
                raise
            return calls.cancelled_or_raise(await self.job(job_id), error)

    async def events(self, job_id: str) -> list[Event]:
        call = Call("GET", calls.job_path(job_id, "events"))
        return (await self._request(call, EventList)).events

    async def prompt(self, job_id: str) -> str | None:
        """The agent's prompt; None before the agent was started."""
        return (await self._request(Call("GET", calls.job_path(job_id, "prompt")), Prompt)).prompt

    async def logs(
        self, job_id: str, *, follow: bool = False, timestamps: bool = False
    ) -> AsyncIterator[str]:
        """The log so far, or with `follow` the log until the job is finished.

        With `timestamps`, every line starts with the time it was written.
        """
        if not follow:
            call = calls.get_logs(job_id, timestamps)
            yield (await self._send(call)).content.decode("utf-8", "replace")
            return
        stream = LogStream(job_id, self._retry_while_away(), timestamps=timestamps)
        while not stream.ended:
            try:
                async for text in self._read_log(stream):
                    yield text
            except ClientError as error:
                await self._pause(stream.delay_after(error))

    async def _read_log(self, stream: LogStream) -> AsyncIterator[str]:
        try:
            async with self._http.stream(
                "GET",
                stream.call.path,
                params=dict(stream.call.params),
                headers=stream.call.headers,
                timeout=stream.timeout,
            ) as response:
                if not response.is_success:
                    await response.aread()
                calls.check_success(response)
                calls.check_event_stream(response)
                async for text in response.aiter_text():
                    for piece in stream.feed(text):
                        yield piece
        except httpx.RequestError as error:
            raise calls.unreachable(self._http.base_url, error) from error
        stream.check_ended()

    async def _request(self, call: Call, kind: type[T]) -> T:
        return calls.read(await self._send(call), kind)

    async def _send(self, call: Call, retry: RetryState | None = None) -> httpx.Response:
        retry = retry or RetryState(retries=self._retries)
        while True:
            try:
                return await self._send_once(call)
            except ClientError as error:
                await self._pause(retry.delay_after(error))

    async def _send_once(self, call: Call) -> httpx.Response:
        request = calls.request(self._http, call, self._timeout_seconds)
        try:
            response = await self._http.send(request)
        except httpx.RequestError as error:
            raise calls.unreachable(self._http.base_url, error) from error
        return calls.check_success(response)

    def _retry_while_away(self) -> RetryState:
        return RetryState(retries=self._retries, away_seconds=self._away_seconds, clock=self._clock)

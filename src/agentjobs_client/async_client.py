"""The asynchronous client: the same calls as `Client`, awaited."""

import asyncio
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
from agentjobs_client.retry import DEFAULT_AWAY_SECONDS, DEFAULT_RETRIES, Clock, Patience

T = TypeVar("T")


class AsyncClient:
    """Speaks to one service with one API key, without blocking the event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout_seconds: float = calls.DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        away_seconds: float = DEFAULT_AWAY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._away_seconds = away_seconds
        self._pause = pause
        self._clock = clock
        self._http = httpx.AsyncClient(
            base_url=calls.address(base_url),
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
        return (await self._ask(Call("GET", "/agents"), AgentList)).agents

    async def repos(self) -> list[Repo]:
        return (await self._ask(Call("GET", "/repos"), RepoList)).repos

    async def dependencies(
        self,
        repo_id: str,
        *,
        ecosystem: str | None = None,
        direct: bool | None = None,
        vulnerable: bool = False,
        search: str | None = None,
    ) -> AsyncIterator[Dependency]:
        """What a repository depends on; further pages are asked for as they are needed."""
        filters = calls.dependency_filters(ecosystem, direct, vulnerable, search)
        cursor: str | None = None
        while True:
            page = await self._ask(
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
        """Queue a job. Without an `idempotency_key` one is made, so that repeats are one job."""
        call = calls.create_job(repo, agent, ticket_id, config_override, idempotency_key)
        return await self._ask(call, JobReceipt)

    async def follow_up(
        self,
        job_id: str,
        prompt: str,
        *,
        agent: str | None = None,
        timeout_seconds: int | None = None,
        max_cost_usd: float | None = None,
        idempotency_key: str | None = None,
    ) -> JobReceipt:
        """Queue a job that goes on with the pull request of a completed one."""
        call = calls.follow_up(
            job_id, prompt, agent, timeout_seconds, max_cost_usd, idempotency_key
        )
        return await self._ask(call, JobReceipt)

    async def job(self, job_id: str, wait_seconds: float | None = None) -> Job:
        """The job now, or as soon as its status changes within `wait_seconds` (at most 60)."""
        return await self._ask(calls.get_job(job_id, wait_seconds), Job)

    async def wait(self, job_id: str) -> Job:
        """The job once it is finished, however long that takes."""
        return [job async for job in self.watch(job_id)][-1]

    async def watch(self, job_id: str) -> AsyncIterator[Job]:
        """The job now and at each change of its status, until it is finished.

        Goes on while the service restarts, unless it is away for longer than `away_seconds`.
        """
        watch = JobWatch(job_id, self._patience_while_away(), self._clock)
        while not watch.ended:
            try:
                job = calls.read(await self._send_once(watch.next_call()), Job)
            except ClientError as error:
                await self._pause(watch.pause_after(error))
                continue
            if watch.brings_news(job):
                yield job
            else:
                await self._pause(watch.pause_without_news())

    async def jobs(
        self, *, status: str | None = None, repo: str | None = None, agent: str | None = None
    ) -> AsyncIterator[Job]:
        """All jobs, newest first; further pages are asked for as they are needed."""
        filters = {"status": status, "repo": repo, "agent": agent}
        cursor: str | None = None
        while True:
            page = await self._ask(calls.list_jobs(filters, cursor), JobPage)
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def cancel(self, job_id: str) -> Job:
        call = Call("POST", calls.job_path(job_id, "cancel"))
        patience = Patience(retries=self._retries)
        try:
            return calls.read(await self._send(call, patience), Job)
        except ApiError as error:
            if not calls.may_be_done_already(error, patience.failures):
                raise
            return calls.cancelled_or_refused(await self.job(job_id), error)

    async def events(self, job_id: str) -> list[Event]:
        call = Call("GET", calls.job_path(job_id, "events"))
        return (await self._ask(call, EventList)).events

    async def prompt(self, job_id: str) -> str | None:
        """What the agent was told; None before it was started."""
        return (await self._ask(Call("GET", calls.job_path(job_id, "prompt")), Prompt)).prompt

    async def logs(
        self, job_id: str, *, follow: bool = False, timestamps: bool = False
    ) -> AsyncIterator[str]:
        """The log so far, or with `follow` all of it until the job is finished.

        With `timestamps` every line begins with the time it was written.
        """
        if not follow:
            call = calls.get_logs(job_id, timestamps)
            yield (await self._send(call)).content.decode("utf-8", "replace")
            return
        stream = LogStream(job_id, self._patience_while_away(), timestamps=timestamps)
        while not stream.ended:
            try:
                async for text in self._read_log(stream):
                    yield text
            except ClientError as error:
                await self._pause(stream.pause_after(error))

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
                calls.success(response)
                calls.check_event_stream(response)
                async for text in response.aiter_text():
                    for piece in stream.feed(text):
                        yield piece
        except httpx.RequestError as error:
            raise calls.unreachable(self._http.base_url, error) from error
        stream.check_ended()

    async def _ask(self, call: Call, kind: type[T]) -> T:
        return calls.read(await self._send(call), kind)

    async def _send(self, call: Call, patience: Patience | None = None) -> httpx.Response:
        patience = patience or Patience(retries=self._retries)
        while True:
            try:
                return await self._send_once(call)
            except ClientError as error:
                await self._pause(patience.pause_after(error))

    async def _send_once(self, call: Call) -> httpx.Response:
        request = calls.request(self._http, call, self._timeout_seconds)
        try:
            response = await self._http.send(request)
        except httpx.RequestError as error:
            raise calls.unreachable(self._http.base_url, error) from error
        return calls.success(response)

    def _patience_while_away(self) -> Patience:
        return Patience(retries=self._retries, away_seconds=self._away_seconds, clock=self._clock)

"""The asynchronous client: the same calls as `Client`, awaited."""

from collections.abc import AsyncIterator
from typing import Unpack

from agentjobs_client import calls
from agentjobs_client.async_http import AsyncHttp
from agentjobs_client.calls import (
    DependencyFilters,
    DismissOptions,
    FollowUpOptions,
    JobFilters,
    JobOptions,
    MergeOptions,
    PullFilters,
    RetryOptions,
    StepFilters,
    Time,
    VulnerabilityFilters,
)
from agentjobs_client.log_stream import LogStream
from agentjobs_client.models.jobs import Artifact, Diff, Event, EventPage, Job, JobReceipt, Step
from agentjobs_client.models.organization import Caller, UsageReport
from agentjobs_client.models.repos import Agent, Dependency, Pull, Repo, Vulnerability
from agentjobs_client.poll import EventFeed, JobWatch, Timeout


class AsyncClient(AsyncHttp):
    """A client for one service with one API key, without blocking the event loop.

    Calls that failed because the service was unreachable or overloaded are retried, without
    creating a second job. What fails in a call is raised as a subclass of `ClientError`.
    """

    async def agents(self) -> list[Agent]:
        """Every enabled agent type."""
        return await self._send(calls.list_agents())

    async def agent(self, agent_id: str) -> Agent:
        """An agent type with its description, limits and schemas."""
        return await self._send(calls.get_agent(agent_id))

    async def repos(self) -> list[Repo]:
        """The connected repositories."""
        return await self._send(calls.list_repos())

    async def repo(self, repo: str) -> Repo:
        """A repository by its id or its full name."""
        return await self._send(calls.get_repo(repo))

    def dependencies(
        self, repo_id: str, **filters: Unpack[DependencyFilters]
    ) -> AsyncIterator[Dependency]:
        """The dependencies of a repository; pages are fetched as needed."""
        return self._items(calls.list_dependencies(repo_id, filters))

    async def me(self) -> Caller:
        """The organization, plan, scopes and limits of the API key."""
        return await self._send(calls.get_caller())

    async def usage(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        group_by: str | None = None,
    ) -> UsageReport:
        """Jobs, time and cost, by default of the last 30 days.

        `group_by` is agent, repo or day.
        """
        return await self._send(calls.get_usage(since, until, group_by))

    async def create_job(self, repo: str, agent: str, **options: Unpack[JobOptions]) -> JobReceipt:
        """Queue a job: `ticket_id`, `config_override`, `labels`, `idempotency_key`."""
        return await self._send(calls.create_job(repo, agent, options))

    async def follow_up(
        self, job_id: str, prompt: str, **options: Unpack[FollowUpOptions]
    ) -> JobReceipt:
        """Queue a follow-up on the pull request of a completed job."""
        return await self._send(calls.follow_up(job_id, prompt, options))

    async def retry(self, job_id: str, **options: Unpack[RetryOptions]) -> JobReceipt:
        """Queue a new job from the request of a finished one."""
        return await self._send(calls.retry_job(job_id, options))

    async def cancel(self, job_id: str) -> Job:
        """Cancel a queued or running job."""
        return await self._send_or_check(
            calls.cancel_job(job_id),
            "job_finished",
            calls.get_job(job_id),
            lambda job: job.status == "cancelled",
        )

    async def job(
        self, job_id: str, wait_seconds: float | None = None, *, wait_for: str | None = None
    ) -> Job:
        """The job now, or as soon as its status changes within `wait_seconds` (at most 60).

        With `wait_for="final"` it waits until the job is finished.
        """
        return await self._send(calls.get_job(job_id, wait_seconds, wait_for))

    def jobs(self, **filters: Unpack[JobFilters]) -> AsyncIterator[Job]:
        """All jobs, newest first; pages are fetched as needed."""
        return self._items(calls.list_jobs(filters))

    async def wait(self, job_id: str, timeout: Timeout | None = None) -> Job:
        """The job once it is finished. Raises `WaitTimeout` after `timeout` (seconds).

        Survives restarts of the service, unless it is unavailable for more than `away_seconds`.
        """
        retry = self._retry_while_away()
        watch = JobWatch(job_id, retry, self._clock, final=True, timeout=timeout)
        return await anext(self._poll(watch))

    def watch(self, job_id: str) -> AsyncIterator[Job]:
        """The job now and after each change of its status, until it is finished.

        Survives restarts of the service, unless it is unavailable for more than `away_seconds`.
        """
        return self._poll(JobWatch(job_id, self._retry_while_away(), self._clock))

    async def logs(
        self,
        job_id: str,
        *,
        follow: bool = False,
        timestamps: bool = False,
        tail_bytes: int | None = None,
    ) -> AsyncIterator[str]:
        """The log so far, or with `follow` the log until the job is finished.

        With `timestamps`, every line starts with the time it was written. `tail_bytes` limits the
        log so far to its last lines.
        """
        if follow:
            stream = LogStream(job_id, self._retry_while_away(), timestamps=timestamps)
            async for text in self._follow(stream):
                yield text
        else:
            yield await self._send(calls.get_logs(job_id, timestamps, tail_bytes))

    async def prompt(self, job_id: str) -> str | None:
        """The agent's prompt; None before the agent was started."""
        return (await self._send(calls.get_prompt(job_id))).prompt

    def steps(self, job_id: str, **filters: Unpack[StepFilters]) -> AsyncIterator[Step]:
        """What the agent did, in its order; pages are fetched as needed."""
        return self._items(calls.list_steps(job_id, filters))

    async def diff(self, job_id: str) -> str:
        """The changes of a job as a unified diff."""
        return await self._send(calls.get_diff_text(job_id))

    async def diff_files(self, job_id: str) -> Diff:
        """The changes of a job, file by file."""
        return await self._send(calls.get_diff(job_id))

    async def artifacts(self, job_id: str) -> list[Artifact]:
        """The files that the agent left for download."""
        return await self._send(calls.list_artifacts(job_id))

    async def artifact(self, job_id: str, name: str) -> bytes:
        """The content of an artifact, at most 10 MiB."""
        return await self._send(calls.get_artifact(job_id, name))

    async def events_of(self, job_id: str) -> list[Event]:
        """The events of a job, oldest first."""
        return await self._send(calls.list_job_events(job_id))

    async def events(
        self, *, cursor: str | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """The events of the organization after `cursor`, oldest first.

        With `follow` it waits for new events, without end.
        """
        async for page in self.event_pages(cursor=cursor, follow=follow):
            for event in page.events:
                yield event

    def event_pages(
        self, *, cursor: str | None = None, follow: bool = False
    ) -> AsyncIterator[EventPage]:
        """Like `events`, with the cursor to continue from after each page."""
        retry = self._retry_while_away()
        return self._poll(EventFeed(cursor, retry, self._clock, follow=follow))

    def vulnerabilities(
        self, **filters: Unpack[VulnerabilityFilters]
    ) -> AsyncIterator[Vulnerability]:
        """Known vulnerabilities, the most severe first; pages are fetched as needed."""
        return self._items(calls.list_vulnerabilities(filters))

    async def dismiss_vulnerability(
        self, vulnerability_id: str, reason: str, **options: Unpack[DismissOptions]
    ) -> Vulnerability:
        """Dismiss a vulnerability, or snooze it: `note`, `until`. `reason` is not_reachable,
        risk_accepted, false_positive or fix_later."""
        return await self._send(calls.dismiss_vulnerability(vulnerability_id, reason, options))

    async def reopen_vulnerability(self, vulnerability_id: str) -> Vulnerability:
        """Forget that a vulnerability was dismissed or snoozed."""
        return await self._send(calls.reopen_vulnerability(vulnerability_id))

    def pulls(self, **filters: Unpack[PullFilters]) -> AsyncIterator[Pull]:
        """Pull requests, newest first; pages are fetched as needed."""
        return self._items(calls.list_pulls(filters))

    async def pull(self, pull_id: str) -> Pull:
        """A pull request by its id."""
        return await self._send(calls.get_pull(pull_id))

    async def merge_pull(self, pull_id: str, **options: Unpack[MergeOptions]) -> Pull:
        """Merge a pull request: `method`, `head_commit`. Needs the scope `pulls`."""
        return await self._send_or_check(
            calls.merge_pull(pull_id, options),
            "pull_not_open",
            calls.get_pull(pull_id),
            lambda pull: pull.state == "merged",
        )

    async def close_pull(self, pull_id: str) -> Pull:
        """Close a pull request without merging it. Needs the scope `pulls`."""
        return await self._send_or_check(
            calls.close_pull(pull_id),
            "pull_not_open",
            calls.get_pull(pull_id),
            lambda pull: pull.state == "closed",
        )

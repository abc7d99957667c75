"""One run of one job, from checkout to pull request, read from top to bottom.

Decides the outcome and stores none of it but the start; whoever called stores the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agentjobs.agents.definitions import Agent
from agentjobs.agents.invocation import prepare
from agentjobs.agents.prompt import JobFacts
from agentjobs.agents.report import read_report
from agentjobs.forges.protocol import Forge, ForgeError, PullRequestRequest, RepoAddress
from agentjobs.git.identity import Identity
from agentjobs.git.process import GitError, git
from agentjobs.git.remote import Remote
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.log_writer import LogWriter
from agentjobs.jobs.outcomes import Completed, Failed, Outcome
from agentjobs.jobs.pull_text import (
    PullText,
    commit_message,
    from_commit_message,
    pull_body,
    pull_text,
)
from agentjobs.jobs.start import start_job
from agentjobs.jobs.tools import JobTools
from agentjobs.sandbox.protocol import SandboxError, SandboxReport
from agentjobs.workspace.checkout import Checkout
from agentjobs.workspace.errors import (
    BaseBranchMissing,
    PushRejected,
    RepoUnavailable,
    UnsafeChange,
)
from agentjobs.workspace.publish import branch_head, commit_changes, push

T = TypeVar("T")

_PATIENCE_SECONDS = (1, 2, 4, 8, 15, 30)
_CODES: dict[type[Exception], str] = {
    RepoUnavailable: "repo_unavailable",
    GitError: "repo_unavailable",
    PushRejected: "push_rejected",
    SandboxError: "sandbox_error",
    ForgeError: "forge_error",
}


class _Stop(Exception):
    """Ends a run with an outcome already known."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.outcome = Failed(code, message)


@dataclass(slots=True)
class Run:
    """A run under way; once `is_irrevocable`, its pull request is being opened."""

    job: ClaimedJob
    tools: JobTools
    slot: int
    log: LogWriter
    is_irrevocable: bool = False

    async def outcome(self) -> Outcome:
        try:
            return await self._through()
        except _Stop as stop:
            return stop.outcome
        except UnsafeChange as error:
            return Failed(error.code, str(error))
        except OSError as error:
            return Failed("sandbox_error", f"The worker's machine refused: {error.strerror}.")
        except tuple(_CODES) as error:
            code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
            # Where the service keeps its files is not the client's business.
            return Failed(code, str(error).replace(self.tools.context.settings.data_dir, "…"))

    async def _through(self) -> Outcome:
        agent, forge = self._agent(), self._forge()
        address = RepoAddress(self.job.organization, self.job.repo, self.job.repo_id)
        remote = forge.remote(address, self.job.credential)
        base = await self._base_commit(remote)
        pushed = await self._pushed_before(remote)
        if pushed is not None:
            return await self._adopt(forge, address, remote, base, pushed)
        async with self.tools.workspaces.checkout(
            self.job.repo_id, base, owner_uid=self._owner_uid
        ) as checkout:
            text = await self._work(agent, checkout)
            commit = await self._publish(checkout, text, remote)
        return await self._open(forge, address, base, commit, text)

    def _agent(self) -> Agent:
        agent = self.tools.context.catalog.get(self.job.agent)
        if agent is None:
            raise _Stop("invalid_configuration", f"The agent {self.job.agent!r} is gone.")
        return agent

    def _forge(self) -> Forge:
        forge = self.tools.forges.get(self.job.platform)
        if forge is None or not self.job.repo_is_connected:
            raise _Stop("repo_unavailable", f"The repository {self.job.repo!r} is disconnected.")
        return forge

    @property
    def _owner_uid(self) -> int | None:
        return self.tools.sandbox.owner_uid(self.slot)

    async def _base_commit(self, remote: Remote) -> str:
        branch = self.job.base_branch
        is_default = branch == self.job.default_branch
        try:
            return await self._patiently(
                lambda: self.tools.mirrors.commit_of(
                    self.job.repo_id,
                    remote,
                    branch=branch,
                    known_head=self.job.repo_head if is_default else None,
                )
            )
        except BaseBranchMissing:
            message = f"The repository {self.job.repo!r} has no branch {branch!r}."
            raise _Stop(
                "repo_unavailable" if is_default else "invalid_configuration", message
            ) from None

    async def _pushed_before(self, remote: Remote) -> str | None:
        """An earlier attempt may have got as far as its branch; that work is not done twice."""
        if not self.job.was_started_before:
            return None
        return await self._patiently(lambda: branch_head(remote, self.job.branch))

    async def _work(self, agent: Agent, checkout: Checkout) -> PullText:
        # Beside the tree, so that it goes with it.
        run_dir = checkout.tree.with_name("run")
        task = prepare(
            agent,
            _facts(self.job, agent, checkout.commit),
            workspace=checkout.tree,
            run_dir=run_dir,
            owner_uid=self._owner_uid,
            timeout_seconds=self._timeout_seconds(agent),
            slot=self.slot,
        )
        await start_job(self.tools.context.db, self.job, checkout.commit)
        self.log.say(f"{agent.id} starts on {self.job.base_branch} at {checkout.commit[:12]}")
        report = await self.tools.sandbox.run(task, self.log.write)
        self._judge(report, task.timeout_seconds)
        return pull_text(self.job, agent.name, read_report(run_dir))

    def _timeout_seconds(self, agent: Agent) -> float:
        return float(self.job.config_override.get("timeout_seconds") or agent.timeout_seconds)

    def _judge(self, report: SandboxReport, timeout_seconds: float) -> None:
        seconds = report.duration_ms / 1_000
        if report.timed_out:
            self.log.say(f"the agent was stopped after {seconds:.1f} s")
            message = f"The agent did not finish within {timeout_seconds:g} seconds."
            raise _Stop("timeout", message)
        self.log.say(f"the agent ended with exit code {report.exit_code} after {seconds:.1f} s")
        if report.exit_code != 0:
            message = f"The agent ended with exit code {report.exit_code}."
            words = f" Its last lines:\n{report.last_lines}" if report.last_lines.strip() else ""
            raise _Stop("agent_failed", message + words)

    async def _publish(self, checkout: Checkout, text: PullText, remote: Remote) -> str:
        settings = self.tools.context.settings
        mirror = self.tools.mirrors.path(self.job.repo_id)
        commit = await commit_changes(
            mirror,
            checkout,
            commit_message(self.job, text),
            author=Identity(settings.author_name, settings.author_email),
            committer=Identity(
                settings.committer_name or settings.author_name,
                settings.committer_email or settings.author_email,
            ),
        )
        if commit is None:
            raise _Stop("no_changes", "The agent finished without proposing a change.")
        await self._push(mirror, commit, remote)
        self.log.say(f"pushed {commit[:12]} to {self.job.branch}")
        return commit

    async def _push(self, mirror: Path, commit: str, remote: Remote) -> None:
        branch = self.job.branch
        try:
            await self._patiently(lambda: push(mirror, commit, branch, remote, expected=None))
        except PushRejected:
            # Only this job writes its branch: what is there is its own, from a push whose end
            # it did not learn.
            own = await self._patiently(lambda: branch_head(remote, branch))
            if own is None:
                raise
            await self._patiently(lambda: push(mirror, commit, branch, remote, expected=own))

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
        """A git host that is away for a moment, say for a restart, costs no agent's work."""
        for pause in _PATIENCE_SECONDS:
            try:
                return await step()
            except RepoUnavailable as error:
                if not error.may_pass:
                    raise
                self.log.say(f"{error}; trying again in {pause} s")
                await asyncio.sleep(pause)
        return await step()

    async def _adopt(
        self, forge: Forge, address: RepoAddress, remote: Remote, base: str, pushed: str
    ) -> Outcome:
        await start_job(self.tools.context.db, self.job, base)
        self.log.say(f"{self.job.branch} is there already at {pushed[:12]}: adopted")
        mirrors = self.tools.mirrors
        await mirrors.commit_of(self.job.repo_id, remote, branch=self.job.branch, known_head=pushed)
        shown = await git(
            "show", "-s", "--format=%B", pushed, git_dir=mirrors.path(self.job.repo_id)
        )
        text = from_commit_message(shown.stdout.decode(errors="replace"))
        return await self._open(forge, address, base, pushed, text)

    async def _open(
        self, forge: Forge, address: RepoAddress, base: str, commit: str, text: PullText
    ) -> Completed:
        override = self.job.config_override
        self.is_irrevocable = True
        pull = await forge.open_pull_request(
            address,
            self.job.credential,
            PullRequestRequest(
                head_branch=self.job.branch,
                base_branch=self.job.base_branch,
                head_commit=commit,
                base_commit=base,
                title=text.title,
                body=pull_body(self.job, text),
                draft=bool(override.get("draft", False)),
                reviewers=tuple(override.get("reviewers") or ()),
            ),
        )
        self.log.say(f"opened pull request #{pull.number}: {pull.url}")
        return Completed(pull.url, pull.number, commit, pull.draft)


def _facts(job: ClaimedJob, agent: Agent, base_commit: str) -> JobFacts:
    return JobFacts(
        job_id=job.id,
        repo=job.repo,
        agent=agent.id,
        agent_name=agent.name,
        base_branch=job.base_branch,
        base_commit=base_commit,
        attempt=job.attempt + 1,
        ticket_id=job.ticket_id,
        config_override=job.config_override,
    )

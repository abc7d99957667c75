"""One run of one job, from checkout to pull request, read from top to bottom.

Decides the outcome and stores none of it but the start; whoever called stores the rest.
"""

import contextlib
from dataclasses import dataclass

from agentjobs.agents.definitions import Agent
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import Forge, ForgeError, RepoAddress
from agentjobs.git.process import GitError
from agentjobs.inventory.repo_facts import RepoFacts
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.run.agent_run import AgentRun
from agentjobs.jobs.run.cve_fix import Fixing
from agentjobs.jobs.run.follow_up_base import pull_so_far
from agentjobs.jobs.run.outcomes import Failed, Outcome, Stopped
from agentjobs.jobs.run.plan import RunPlan, plan_run
from agentjobs.jobs.run.proposal import Proposal, Pushed
from agentjobs.jobs.run.pull_text import PullText, pull_text
from agentjobs.jobs.run.ticket import JobTicket
from agentjobs.jobs.run.tools import JobTools
from agentjobs.repos.configuration import Configuration, ConfigurationError
from agentjobs.repos.sync_requests import request_sync
from agentjobs.sandbox.protocol import SandboxError
from agentjobs.store.database import StoreUnavailable
from agentjobs.workspace.errors import (
    BaseBranchMissing,
    PushRejected,
    RepoUnavailable,
    UnsafeChange,
)

# A platform that is busy or away is waited for as long as the agent may take, and so long anyway.
_MIN_RETRY_SECONDS = 900.0
_TROUBLE_OF_CONNECTIONS = frozenset({"unauthorized", "denied", "gone"})
_CODES: dict[type[Exception], str] = {
    RepoUnavailable: "repo_unavailable",
    GitError: "repo_unavailable",
    PushRejected: "push_rejected",
    SandboxError: "sandbox_error",
    ForgeError: "forge_error",
}


@dataclass(slots=True)
class Run:
    """A run under way; once `is_irrevocable`, its pull request is being opened."""

    job: ClaimedJob
    tools: JobTools
    slot: int
    log: LogWriter
    is_irrevocable: bool = False

    async def outcome(self) -> Outcome:
        outcome = await self._judged()
        if isinstance(outcome, Failed):
            return Failed(outcome.code, self.log.redacted(self._without_paths(outcome.message)))
        return outcome

    async def _judged(self) -> Outcome:
        try:
            return await self._through()
        except Stopped as stop:
            return stop.outcome
        except UnsafeChange as error:
            return Failed(error.code, str(error))
        except OSError as error:
            reason = error.strerror or str(error)
            return Failed("sandbox_error", f"The worker's machine refused: {reason}.")
        except tuple(_CODES) as error:
            if isinstance(error, ForgeError) and error.fault in _TROUBLE_OF_CONNECTIONS:
                await self._have_it_looked_at()
            return Failed(self._code_of(error), str(error))

    def _code_of(self, error: Exception) -> str:
        is_gone = isinstance(error, ForgeError) and error.fault == "gone"
        if is_gone and not self.is_irrevocable:
            return "repo_unavailable"
        return next(code for kind, code in _CODES.items() if isinstance(error, kind))

    async def _have_it_looked_at(self) -> None:
        """Whoever watches the connection learns of it there, and not from its jobs alone."""
        with contextlib.suppress(StoreUnavailable):
            await self.tools.context.db.transact(request_sync, self.job.repo_id)

    def _without_paths(self, text: str) -> str:
        """Where the service keeps its files is not the client's business."""
        return text.replace(self.tools.context.settings.data_dir, "…")

    async def _through(self) -> Outcome:
        agent = self._agent()
        proposal = await self._proposal(agent)
        base = await self._base_commit(proposal)
        # From the base commit to the push everything is in the mirror and nowhere else.
        with self.tools.mirrors.in_use(self.job.repo_id):
            return await self._from(base, agent, proposal)

    async def _from(self, base: str, agent: Agent, proposal: Proposal) -> Outcome:
        facts = await self._facts(base)
        plan = self._plan(agent, facts)
        ticket = JobTicket(self.job, self.tools, self.log, proposal.address.full_name)
        pushed = await proposal.pushed_before(base)
        if pushed is not None:
            return await self._adopt(proposal, plan, pushed, ticket)
        if (merged := await proposal.merged_before()) is not None:
            return merged
        await ticket.find()
        fixing = Fixing(self.job, self.tools, self.log)
        await fixing.prepare(base)
        plan = fixing.narrowed(plan)
        db = self.tools.context.db
        pull = await pull_so_far(db, proposal.forge, proposal.address, self.job)
        work = AgentRun(
            self.job,
            agent,
            plan,
            self.tools,
            self.slot,
            self.log,
            pull,
            fixing.for_job_file,
            ticket.words,
        )
        async with self.tools.workspaces.checkout(
            self.job.repo_id, base, owner_uid=self.tools.sandbox.owner_uid(self.slot)
        ) as checkout:
            report = await work.work(checkout, facts)
            text = pull_text(self.job, agent.name, report, ticket.facts)
            text = PullText(self.log.redacted(text.title), self.log.redacted(text.body))
            # Before it is checked: what a check leaves in the tree is nobody's proposal.
            commit = await proposal.commit(checkout, text, plan)
            await fixing.prove(commit)
            verification = await work.verify(checkout)
        # Hours may have passed: use the current credential and a new retry budget.
        proposal = await self._proposal(agent)
        await proposal.push(commit, base)
        self.is_irrevocable = True
        done = await proposal.open(base, commit, text, plan, verification)
        await ticket.link_back(done, text.title)
        return done

    async def _adopt(
        self, proposal: Proposal, plan: RunPlan, pushed: Pushed, ticket: JobTicket
    ) -> Outcome:
        await start_job(self.tools.context.db, self.job, pushed.base)
        self.log.say(f"{self.job.branch} is there already at {pushed.commit[:12]}: adopted")
        await ticket.find_again()
        text = await proposal.words_of(pushed.commit)
        self.is_irrevocable = True
        done = await proposal.open(
            pushed.base, pushed.commit, text, plan, self.job.verification, pushed.head
        )
        await ticket.link_back(done, text.title)
        return done

    def _agent(self) -> Agent:
        agent = self.tools.context.catalog.get(self.job.agent)
        if agent is None:
            raise Stopped("invalid_configuration", f"The agent {self.job.agent!r} is gone.")
        return agent

    async def _proposal(self, agent: Agent) -> Proposal:
        forge = await self._forge(agent) if self.job.repo_is_connected else None
        if forge is None:
            raise Stopped("repo_unavailable", f"The repository {self.job.repo!r} is disconnected.")
        job = self.job
        name = job.repo if job.connection_id is None else await self._name_now()
        address = RepoAddress(job.organization, name, job.repo_id, job.external_id)
        return Proposal(self.job, self.tools, self.log, forge, address)

    async def _name_now(self) -> str:
        """A platform may have renamed it since the job was asked for."""
        row = await self.tools.context.db.fetch_one(
            "SELECT full_name FROM repos WHERE id = :id", id=self.job.repo_id
        )
        return self.job.repo if row is None else str(row["full_name"])

    async def _forge(self, agent: Agent) -> Forge | None:
        if self.job.connection_id is None:
            return self.tools.forges.get(self.job.platform)
        retry_budget = RetryBudget(max(agent.timeout_seconds, _MIN_RETRY_SECONDS), self.log.say)
        return await self.tools.platforms.adapter_for(self.job.connection_id, retry_budget)

    async def _base_commit(self, proposal: Proposal) -> str:
        branch = self.job.base_branch
        is_default = branch == self.job.default_branch
        known_head = self.job.repo_head if is_default else None
        try:
            return await proposal.fetched(branch, known_head)
        except BaseBranchMissing:
            message = f"The repository {self.job.repo!r} has no branch {branch!r}."
            if self.job.follows is not None:
                raise Stopped("forge_error", f"{message} Create a new job.") from None
            raise Stopped(
                "repo_unavailable" if is_default else "invalid_configuration", message
            ) from None

    async def _facts(self, base: str) -> RepoFacts:
        mirror = self.tools.mirrors.path(self.job.repo_id)
        return await self.tools.facts.of(mirror, self.job.repo_id, base)

    def _plan(self, agent: Agent, facts: RepoFacts) -> RunPlan:
        try:
            configuration = facts.parsed_configuration()
            self._warn(configuration)
            return plan_run(self.job, agent, configuration)
        except ConfigurationError as error:
            raise Stopped("invalid_configuration", str(error)) from None

    def _warn(self, configuration: Configuration) -> None:
        for warning in configuration.warnings:
            self.log.say(warning)

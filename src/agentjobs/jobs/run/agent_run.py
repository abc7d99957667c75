"""One agent at work on one checkout, and the checks that come after it.

Knows the sandbox, not git or platforms. What ends the run early is raised as `Stopped`.
"""

import asyncio
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from agentjobs.agents.certificates import trusting
from agentjobs.agents.definitions import Agent
from agentjobs.agents.invocation import prepare
from agentjobs.agents.prompt import JobFacts, PullSoFar, TicketWords
from agentjobs.agents.report import Report, read_report
from agentjobs.agents.run_watcher import Watch
from agentjobs.agents.watcher_choice import watch_of
from agentjobs.inventory.repo_facts import RepoFacts
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.run.agent_network import MissingSecret, Reach, agent_reach, egress_reach
from agentjobs.jobs.run.outcomes import Stopped
from agentjobs.jobs.run.plan import Check, RunPlan
from agentjobs.jobs.run.retry import as_long_as_leased
from agentjobs.jobs.run.tools import JobTools
from agentjobs.jobs.run.verification import Verification, in_words, record_verification
from agentjobs.sandbox.protocol import SandboxReport, SandboxTask
from agentjobs.workspace.checkout import Checkout


@dataclasses.dataclass(slots=True)
class AgentRun:
    job: ClaimedJob
    agent: Agent
    plan: RunPlan
    tools: JobTools
    slot: int
    log: LogWriter
    pull: PullSoFar | None = None
    fixes: list[dict[str, Any]] | None = None
    ticket: TicketWords | None = None
    watch: Watch = dataclasses.field(init=False)
    _sandboxed: asyncio.Task[SandboxReport] | None = None
    _budget_message: str | None = None

    def __post_init__(self) -> None:
        self.watch = watch_of(self.agent)

    async def work(self, checkout: Checkout, facts: RepoFacts) -> Report | None:
        """The agent's report for the pull request, once it has ended well."""
        task = self._task(checkout, facts)
        try:
            async with agent_reach(
                self.tools, self.job, self.agent, self.plan, self.log, self._stop_spending
            ) as reach:
                prompt = task.environment["AGENTJOBS_PROMPT"]
                await start_job(self.tools.context.db, self.job, checkout.commit, prompt)
                base = f"{self.job.base_branch} at {checkout.commit[:12]}"
                self.log.say(f"{self.agent.id} starts on {base}")
                report = await self._run(self._fitted(task, reach))
        except MissingSecret as error:
            raise Stopped("invalid_configuration", str(error)) from None
        if self._budget_message is not None:
            # What its last answer cost may be known only after it has ended.
            raise Stopped("budget_exceeded", self._budget_message)
        self._judge(report, task)
        return read_report(task.run_dir)

    async def verify(self, checkout: Checkout) -> Verification | None:
        """Every check, up to the first that fails; None when there is none."""
        found: Verification | None = None
        for check in self.plan.checks:
            found = _joined(found, await self._check(check, checkout))
            self.log.say(f"verification: {in_words(found)}")
            if not found.passed:
                break
        if found is None:
            return None
        await self._record(found)
        if not found.passed and self.plan.on_verify_failure == "fail":
            words = f" Its last lines:\n{found.output}" if found.output else ""
            raise Stopped("verification_failed", f"The verification {in_words(found)}.{words}")
        return found

    def _task(self, checkout: Checkout, facts: RepoFacts) -> SandboxTask:
        return prepare(
            self.agent,
            self._job_facts(checkout.commit, facts),
            workspace=checkout.tree,
            run_dir=_run_dir(checkout),
            owner_uid=self.tools.sandbox.owner_uid(self.slot),
            timeout_seconds=self.plan.timeout_seconds,
            slot=self.slot,
        )

    def _job_facts(self, base_commit: str, facts: RepoFacts) -> JobFacts:
        job, agent = self.job, self.agent
        checks = " && ".join(shlex.join(check.command) for check in self.plan.checks)
        return JobFacts(
            job_id=job.id,
            repo=job.repo,
            agent=agent.id,
            agent_name=agent.name,
            base_branch=job.base_branch,
            base_commit=base_commit,
            attempt=job.attempt + 1,
            ticket_id=job.ticket_id,
            ticket=self.ticket,
            config_override=job.config_override,
            languages=facts.languages,
            guidance_files=facts.guidance,
            test_command=facts.test_command,
            verify_command=checks or None,
            pull=self.pull,
            fixes=self.fixes,
        )

    def _fitted(self, task: SandboxTask, reach: Reach) -> SandboxTask:
        reaching = dataclasses.replace(task, doors=reach.doors, hosts=reach.hosts)
        return trusting(reaching, self.tools.certificates)

    async def _run(self, task: SandboxTask) -> SandboxReport:
        def show(output: bytes) -> None:
            self.log.write(self.watch.feed(output))

        self._sandboxed = asyncio.create_task(self.tools.sandbox.run(task, show))
        try:
            return await self._sandboxed
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if self._budget_message is None or (own is not None and own.cancelling()):
                raise
            raise Stopped("budget_exceeded", self._budget_message) from None
        finally:
            self.log.write(self.watch.end())
            self.log.end_output()

    def _stop_spending(self, message: str) -> None:
        """An agent that cannot pay for its next request has no way to finish its work."""
        if self._budget_message is None:
            self._budget_message = message
            self.log.say(f"the budget is spent: {message}")
            if self._sandboxed is not None:
                self._sandboxed.cancel()

    def _judge(self, report: SandboxReport, task: SandboxTask) -> None:
        seconds = report.duration_ms / 1_000
        if report.timed_out:
            self.log.say(f"the agent was stopped after {seconds:.1f} s")
            message = f"The agent did not finish within {task.timeout_seconds:g} seconds."
            raise Stopped("timeout", message)
        if report.exceeded:
            self.log.say(f"the agent was stopped: it used more than {report.exceeded}")
            raise Stopped("agent_failed", f"The agent used more than {report.exceeded}.")
        self.log.say(f"the agent ended with exit code {report.exit_code} after {seconds:.1f} s")
        reason = self.watch.why_it_failed(report, task.run_dir)
        if reason is not None:
            raise Stopped("agent_failed", reason)

    async def _record(self, found: Verification) -> None:
        db, job = self.tools.context.db, self.job
        await as_long_as_leased(
            lambda: record_verification(db, job.id, job.fence, found),
            self.tools.context.settings.lease_seconds,
        )

    async def _check(self, check: Check, checkout: Checkout) -> Verification:
        """In a sandbox like the agent's, without its model, and with the whole time again."""
        task = SandboxTask(
            argv=check.command,
            environment=dict(self.agent.environment),
            workspace=checkout.tree,
            run_dir=_run_dir(checkout),
            timeout_seconds=self.plan.timeout_seconds,
            slot=self.slot,
            limits=self.agent.limits,
            read_only=check.read_only,
        )
        self.log.say(f"verification: {shlex.join(check.command)}")
        async with egress_reach(self.tools, self.plan, self.log) as reach:
            report = await self.tools.sandbox.run(self._fitted(task, reach), self.log.write)
        self.log.end_output()
        return Verification(
            command=shlex.join(check.command),
            passed=report.exit_code == 0,
            exit_code=report.exit_code,
            duration_ms=report.duration_ms,
            stopped_by=_what_stopped(report, task),
            output="" if report.exit_code == 0 else self.log.redacted(report.last_lines),
        )


def _what_stopped(report: SandboxReport, task: SandboxTask) -> str | None:
    if report.timed_out:
        return f"it did not finish within {task.timeout_seconds:g} seconds"
    return f"it used more than {report.exceeded}" if report.exceeded else None


def _run_dir(checkout: Checkout) -> Path:
    # Beside the tree, so that it goes with it.
    return checkout.tree.with_name("run")


def _joined(before: Verification | None, found: Verification) -> Verification:
    if before is None:
        return found
    return Verification(
        command=f"{before.command} && {found.command}",
        passed=found.passed,
        exit_code=found.exit_code,
        duration_ms=before.duration_ms + found.duration_ms,
        stopped_by=found.stopped_by,
        output=found.output,
    )

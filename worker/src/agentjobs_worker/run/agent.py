"""Runs the agent on a checkout, under its time, resource and cost limits. Knows nothing of git."""

import asyncio
import dataclasses

from agentjobs_runtime.protocol.messages import RemoveResults, StartJob
from agentjobs_runtime.protocol.outcomes import JobFailed, LimitExceeded
from agentjobs_runtime.threads import run_in_thread
from agentjobs_runtime.tracing.trace_context import VARIABLE, write_traceparent
from agentjobs_worker.agents.presets.all_presets import watcher_for
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.run.active_environment import ActiveEnvironment
from agentjobs_worker.run.agent_network import connect_task, open_agent_network
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import RunPlan
from agentjobs_worker.run.trace import agent_span
from agentjobs_worker.sandbox.protocol import BeforeStart, SandboxLost, SandboxReport, SandboxTask
from agentjobs_worker.workspace.checkout import Checkout, is_small


async def run_agent(
    run: RunContext,
    plan: RunPlan,
    checkout: Checkout,
    environment: ActiveEnvironment,
    task: SandboxTask,
) -> None:
    """Raises JobFailed if the agent failed."""
    with agent_span(plan.agent) as span:
        if traceparent := write_traceparent(span):
            variables = {VARIABLE: traceparent, **task.environment}
            task = dataclasses.replace(task, environment=variables)
        await _run(run, plan, checkout, environment, task)


async def _run(
    run: RunContext,
    plan: RunPlan,
    checkout: Checkout,
    environment: ActiveEnvironment,
    task: SandboxTask,
) -> None:
    process = _AgentProcess(run, watcher_for(plan.agent))
    async with open_agent_network(run, plan, process.stop_over_budget) as network:

        async def start() -> None:
            if run.job.is_adopted:
                raise SandboxLost("the agent that another worker started is gone")
            if run.job.was_started_before:
                await run.link.call(RemoveResults(run.job.claim))
            prompt = task.environment["AGENTJOBS_PROMPT"]
            run.phases.begin("agent")
            phases = run.phases.encode()
            await run.link.call(StartJob(run.job.claim, checkout.commit, prompt, phases))
            run.phases.mark_stored(phases)
            base = f"{run.job.base_branch} at {checkout.commit[:12]}"
            run.log.note(f"{plan.agent.id} starts on {base}")

        task = connect_task(run, task, network)
        if plan.agent.uses_environment:
            task = await environment.connect_agent(
                task, plan.agent, run.tools.pod_programs, run.log.note
            )
        if is_small(checkout.entries) and not task.layers:
            run.tools.spare_sandboxes.remember(task)
        if run.job.is_adopted:
            run.log.note("the worker was restarted, and the agent continues")
        report = await process.run(task, start)
        for step in await run_in_thread(list, process.watch.steps_left_in(task.run_dir)):
            run.log.steps.record(step)
            # Thousands of them at once would block the event loop.
            await asyncio.sleep(0)
    process.check_budget()
    _check_report(run, report, task, process.watch)


@dataclasses.dataclass(slots=True)
class _AgentProcess:
    run_context: RunContext
    watch: RunWatcher
    _sandbox: asyncio.Task[SandboxReport] | None = None
    _over_budget: str | None = None

    async def run(self, task: SandboxTask, before_start: BeforeStart) -> SandboxReport:
        log = self.run_context.log

        def write(output: bytes) -> None:
            log.write(self.watch.feed(output))

        self.watch.on_step = log.steps.record
        sandbox = self.run_context.tools.sandbox
        self._sandbox = asyncio.create_task(sandbox.run(task, write, before_start))
        try:
            return await self._sandbox
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():
                self.check_budget()
            raise
        finally:
            log.write(self.watch.end())
            log.end_output()
            log.steps.end()

    def stop_over_budget(self, message: str) -> None:
        """An agent that cannot pay for its next request cannot finish its work either."""
        if self._over_budget is None:
            self._over_budget = message
            self.run_context.log.note(f"the budget is spent: {message}")
            if self._sandbox is not None:
                self._sandbox.cancel()

    def check_budget(self) -> None:
        """Also called after the agent ended: the cost of its last request is known only then."""
        if self._over_budget is not None:
            raise JobFailed("budget_exceeded", self._over_budget) from None


def _check_report(
    run: RunContext, report: SandboxReport, task: SandboxTask, watch: RunWatcher
) -> None:
    seconds = report.duration_ms / 1_000
    if report.timed_out:
        run.log.note(f"the agent was stopped after {seconds:.1f} s")
        message = f"The agent did not finish within {task.timeout_seconds:g} seconds."
        raise JobFailed("timeout", message)
    if report.exceeded:
        run.log.note(f"the agent was stopped: it used more than {report.exceeded}")
        raise LimitExceeded("agent_failed", f"The agent used more than {report.exceeded}.")
    run.log.note(f"the agent ended with exit code {report.exit_code} after {seconds:.1f} s")
    reason = watch.failure_reason(report, task.run_dir)
    if reason is not None:
        raise JobFailed("agent_failed", reason)

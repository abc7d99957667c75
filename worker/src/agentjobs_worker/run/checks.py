"""Runs the checks after the agent, in its environment, each in a sandbox without its model."""

import shlex

import msgspec

from agentjobs_runtime.protocol.errors import retry_within_lease
from agentjobs_runtime.protocol.messages import RecordVerification
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.protocol.verification import Verification, describe
from agentjobs_runtime.tracing.spans import traced
from agentjobs_worker.run.active_environment import ActiveEnvironment
from agentjobs_worker.run.agent_network import connect_task, open_egress
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import Check, RunPlan
from agentjobs_worker.run.prompt import locate_run_dir
from agentjobs_worker.sandbox.protocol import SandboxTask
from agentjobs_worker.workspace.checkout import Checkout


@traced("checks")
async def run_checks(
    run: RunContext, plan: RunPlan, checkout: Checkout, environment: ActiveEnvironment
) -> Verification | None:
    """Run the checks up to the first that fails; None when there are none.

    Raises JobFailed when a failed check fails the job.
    """
    verification: Verification | None = None
    if plan.checks:
        run.phases.begin("checks")
    for check in plan.checks:
        verification = _join(
            verification, await _run_check(run, plan, check, checkout, environment)
        )
        run.log.note(f"verification: {describe(verification)}")
        if not verification.passed:
            break
    if verification is None:
        return None
    await _record(run, verification)
    if not verification.passed and plan.on_verify_failure == "fail":
        output = f" Its last lines:\n{verification.output}" if verification.output else ""
        message = f"The verification {describe(verification)}.{output}"
        raise JobFailed("verification_failed", message)
    return verification


async def _run_check(
    run: RunContext,
    plan: RunPlan,
    check: Check,
    checkout: Checkout,
    environment: ActiveEnvironment,
) -> Verification:
    command = shlex.join(check.command)
    task = SandboxTask(
        argv=check.command,
        environment=dict(plan.agent.environment),
        workspace=checkout.tree,
        run_dir=locate_run_dir(checkout),
        timeout_seconds=plan.timeout_seconds,
        slot=run.slot,
        limits=plan.agent.limits,
        read_only=check.read_only,
        owner=run.owner("check"),
        on_note=run.log.note,
        placement=plan.agent.placement,
    )
    run.log.note(f"verification: {command}")
    async with open_egress(run, plan) as network:
        task = environment.connect(connect_task(run, task, network))
        report = await run.tools.sandbox.run(task, run.log.write)
    run.log.end_output()
    passed = report.exit_code == 0
    reason = report.failure_reason(task.timeout_seconds)
    return Verification(
        command=command,
        passed=passed,
        exit_code=report.exit_code,
        duration_ms=report.duration_ms,
        stopped_by=f"it {reason}" if reason and report.exit_code is None else None,
        output="" if passed else run.log.redact(report.last_lines),
    )


def _join(before: Verification | None, verification: Verification) -> Verification:
    """All checks as one verification; the result is that of the last."""
    if before is None:
        return verification
    return msgspec.structs.replace(
        verification,
        command=f"{before.command} && {verification.command}",
        duration_ms=before.duration_ms + verification.duration_ms,
    )


async def _record(run: RunContext, verification: Verification) -> None:
    request = RecordVerification(run.job.claim, verification)
    await retry_within_lease(lambda: run.link.call(request), run.settings.lease_seconds)

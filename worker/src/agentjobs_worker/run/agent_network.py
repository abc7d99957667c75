"""What an agent can reach from its sandbox: the allow-list proxy and the model gateway.

Opens both for one run. The policies are those of `outbound/egress` and `gateway`.
"""

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.upstream import Upstream
from agentjobs_worker.agents.model_access import GATEWAY_PORT, model_environment
from agentjobs_worker.environments.network import BROKER_PORTS, Network
from agentjobs_worker.environments.network import open_egress as open_egress_to
from agentjobs_worker.link.models import (
    TOKEN_PREFIX,
    Account,
    Gateway,
    Ledger,
    model_step,
    open_secret,
    usage_writer,
)
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import RunPlan
from agentjobs_worker.sandbox.certificates import with_certificates
from agentjobs_worker.sandbox.protocol import SandboxPort, SandboxTask


def connect_task(run: RunContext, task: SandboxTask, network: Network) -> SandboxTask:
    connected = dataclasses.replace(task, ports=network.ports, hosts=network.hosts)
    return with_certificates(connected, run.tools.certificates)


@asynccontextmanager
async def open_agent_network(
    run: RunContext, plan: RunPlan, on_budget_exceeded: Callable[[str], None]
) -> AsyncIterator[Network]:
    """Raises JobFailed when the organization has not stored the key of the agent's model."""
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(open_egress(run, plan))
        model = plan.agent.model
        if model is not None:
            gateway = await _open_gateway(run, plan, model, on_budget_exceeded)
            stack.push_async_callback(gateway.close)
            port = SandboxPort(
                number=GATEWAY_PORT,
                protocol=gateway.protocol,
                environment=model_environment(plan.agent, model, gateway.token),
            )
            network = Network((*network.ports, port), network.hosts)
        yield network


@asynccontextmanager
async def open_egress(run: RunContext, plan: RunPlan) -> AsyncIterator[Network]:
    def note(line: str) -> None:
        run.log.note(f"network: {line}")

    async with open_egress_to(
        plan.network, run.tools.allowed, note, (GATEWAY_PORT, *BROKER_PORTS)
    ) as network:
        yield network


async def _open_gateway(
    run: RunContext,
    plan: RunPlan,
    model: ModelAccess,
    on_budget_exceeded: Callable[[str], None],
) -> Gateway:
    job = run.job
    key = await _model_key(run, model)
    run.log.add_secret(key)
    account = Account(
        job_id=job.id,
        organization_id=job.organization_id,
        job_limit_nanousd=plan.job_limit_nanousd,
        day_limit_nanousd=job.daily_budget_nanousd,
    )
    gateway = Gateway(
        Upstream(api=model.api, url=model.url, key=key, models=model.names),
        session=run.tools.session,
        prices=run.tools.prices,
        ledger=Ledger(run.service.db, account, usage_writer(job.id)),
        on_note=run.log.note,
        on_budget_exceeded=on_budget_exceeded,
        on_call=lambda report: run.log.steps.record(model_step(report)),
        token=_gateway_token(run),
    )
    run.log.add_secret(gateway.token)
    return gateway


def _gateway_token(run: RunContext) -> str | None:
    """The same for a worker that adopts the job, because its agent keeps the token."""
    identity, job = run.tools.identity, run.job
    if identity is None:
        return None
    return f"{TOKEN_PREFIX}{identity.derive_token(f'gateway {job.id} {job.attempt}')}"


async def _model_key(run: RunContext, model: ModelAccess) -> str:
    job = run.job
    try:
        key = await open_secret(
            run.service.db, run.tools.service.keys, job.organization_id, model.secret
        )
    except Problem as problem:
        raise JobFailed("invalid_configuration", problem.message) from None
    if key is None:
        raise JobFailed(
            "invalid_configuration",
            f"The agent {job.agent} needs the secret {model.secret}, which the organization "
            f"{job.organization} does not have: run "
            f"`agentjobs secrets set {model.secret} --org {job.organization}`.",
        )
    return key

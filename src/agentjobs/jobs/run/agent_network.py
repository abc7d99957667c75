"""What an agent reaches from inside its sandbox: the allow-list proxy and the model gateway.

Opens them for one run and ends them with it. Decides nothing about budgets or addresses.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from agentjobs.agents.definitions import Agent, ModelAccess
from agentjobs.agents.model_access import GATEWAY_PORT, model_environment
from agentjobs.gateway.gateway import Gateway
from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.gateway.upstream import Upstream
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.plan import RunPlan
from agentjobs.jobs.run.tools import JobTools
from agentjobs.jobs.run.usage import usage_writer
from agentjobs.organizations.secrets import open_secret
from agentjobs.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs.problems import Problem
from agentjobs.sandbox.protocol import Door


class MissingSecret(Exception):
    """The organization has not stored the key its agent needs; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Reach:
    doors: tuple[Door, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


async def model_key(tools: JobTools, job: ClaimedJob, model: ModelAccess) -> str:
    try:
        key = await open_secret(tools.context.db, tools.keys, job.organization_id, model.secret)
    except Problem as problem:
        raise MissingSecret(problem.message) from None
    if key is None:
        raise MissingSecret(
            f"The agent {job.agent} needs the secret {model.secret}, which the organization "
            f"{job.organization} does not have: run "
            f"`agentjobs secrets set {model.secret} --org {job.organization}`."
        )
    return key


@asynccontextmanager
async def egress_reach(tools: JobTools, plan: RunPlan, log: LogWriter) -> AsyncIterator[Reach]:
    if not plan.network:
        yield Reach()
        return
    egress = Egress(
        plan.network,
        tools.allowed,
        lambda line: log.say(f"network: {line}"),
        reserved_ports=(GATEWAY_PORT,),
    )
    try:
        yield Reach(
            tuple(
                Door(
                    port=port,
                    protocol=protocol,
                    environment=egress.environment if port == PROXY_PORT else {},
                )
                for port, protocol in egress.doors.items()
            ),
            egress.hosts,
        )
    finally:
        await egress.close()


@asynccontextmanager
async def agent_reach(
    tools: JobTools,
    job: ClaimedJob,
    agent: Agent,
    plan: RunPlan,
    log: LogWriter,
    on_budget_exceeded: Callable[[str], None],
) -> AsyncIterator[Reach]:
    """Raises MissingSecret."""
    async with AsyncExitStack() as stack:
        reach = await stack.enter_async_context(egress_reach(tools, plan, log))
        if agent.model is not None:
            key = await model_key(tools, job, agent.model)
            log.hide(key)
            gateway = _gateway(tools, job, agent.model, key, plan, log, on_budget_exceeded)
            stack.push_async_callback(gateway.close)
            log.hide(gateway.token)
            door = Door(
                port=GATEWAY_PORT,
                protocol=gateway.protocol,
                environment=model_environment(agent, agent.model, gateway.token),
            )
            reach = Reach((*reach.doors, door), reach.hosts)
        yield reach


def _gateway(
    tools: JobTools,
    job: ClaimedJob,
    model: ModelAccess,
    key: str,
    plan: RunPlan,
    log: LogWriter,
    on_budget_exceeded: Callable[[str], None],
) -> Gateway:
    account = Account(
        job_id=job.id,
        organization_id=job.organization_id,
        job_limit_nanousd=plan.job_limit_nanousd,
        day_limit_nanousd=job.daily_budget_nanousd,
    )
    return Gateway(
        Upstream(api=model.api, url=model.url, key=key, models=model.names),
        session=tools.session,
        prices=tools.prices,
        ledger=Ledger(tools.context.db, account, usage_writer(job.id)),
        on_note=log.say,
        on_budget_exceeded=on_budget_exceeded,
    )

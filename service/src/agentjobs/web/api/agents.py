"""`GET /agents` and `GET /agents/{agent_id}`: agent types, and whether the plan allows them."""

from typing import Annotated, Any, get_args

import msgspec
from starlette.responses import Response

from agentjobs.jobs.override_schema import override_schema
from agentjobs.organizations.budgets import read_budget
from agentjobs.web.api.auth import unauthorized
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursors, NextCursor, PageQuery
from agentjobs.web.api.query import read_query
from agentjobs.worker_part.agents import is_agent_id
from agentjobs_runtime.agents.definitions import Agent, ResultKind
from agentjobs_runtime.json_fields import copy_fields, doc, known_values
from agentjobs_runtime.money import usd
from agentjobs_runtime.problems import Problem

_CURSORS = Cursors("agents", is_agent_id)


class AgentView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Agent identifier; used as `agent` when creating a job.")]
    name: Annotated[str, doc("Display name.")]
    available: Annotated[bool, doc("Whether the agent is available on the current plan.")]
    plan_required: Annotated[str, doc("Minimum plan needed for the agent.")]
    description: Annotated[str, doc("What the agent does; may be empty.")]
    result: Annotated[
        str,
        known_values(
            "What its jobs complete with: a pull request, or a report and no pull request.",
            get_args(ResultKind),
        ),
    ]


class AgentLimits(msgspec.Struct, frozen=True):
    timeout_seconds: Annotated[float, doc("The agent is stopped after this time.")]
    max_cost_usd: Annotated[
        float | None,
        doc(
            "The agent is stopped when its models have cost this much in one job: its own limit or "
            "the organization's, whichever is lower; null without a limit."
        ),
    ]


class AgentDetails(AgentView, frozen=True):
    result_schema: Annotated[
        dict[str, Any] | None, doc("The JSON Schema of its jobs' `report_json`; null without one.")
    ]
    limits: Annotated[AgentLimits, doc("Limits of each job; a job may lower them.")]
    config_override_schema: Annotated[
        dict[str, Any], doc("A JSON Schema of the `config_override` of this agent's jobs.")
    ]


class AgentList(msgspec.Struct, frozen=True):
    agents: Annotated[list[AgentView], doc("The agent types.")]
    next_cursor: NextCursor


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, PageQuery, _CURSORS.faults)
    after = _CURSORS.decode(query.cursor) or ""
    agents = sorted(call.context.catalog.all(), key=lambda agent: agent.id)
    views = [_view(call, agent) for agent in agents if agent.id > after]
    return Reply(200, AgentList(*_CURSORS.cut(views, query.limit, lambda view: view.id)))


async def show(call: Call) -> Response:
    agent_id = call.path["agent_id"]
    agent = call.context.catalog.get(agent_id)
    if agent is None:
        raise Problem(
            "agent_not_found", f"There is no agent {agent_id!r}; GET /agents lists the agents."
        )
    budget = await read_budget(call.context.db, call.caller.organization_id)
    if budget is None:
        raise unauthorized()
    caps = [cap for cap in (agent.max_cost_usd, usd(budget.job_nanousd)) if cap is not None]
    limits = AgentLimits(agent.timeout_seconds, min(caps, default=None))
    details = AgentDetails(
        **msgspec.structs.asdict(_view(call, agent)),
        result_schema=agent.result_schema,
        limits=limits,
        config_override_schema=override_schema(**msgspec.structs.asdict(limits)),
    )
    return Reply(200, details)


def _view(call: Call, agent: Agent) -> AgentView:
    available = call.context.plans.allows(call.caller.plan, agent.plan_required)
    return copy_fields(agent, AgentView, available=available)

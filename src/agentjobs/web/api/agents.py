"""`GET /agents`: every enabled agent type, and whether the caller's plan allows it."""

from typing import Annotated

import msgspec
from starlette.responses import Response

from agentjobs.agents.declarations import is_agent_id
from agentjobs.agents.definitions import Agent
from agentjobs.json_fields import doc
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursors, NextCursor, PageQuery
from agentjobs.web.api.query import read_query

_CURSORS = Cursors("agents", is_agent_id)


class AgentView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Agent identifier; used as `agent` when creating a job.")]
    name: Annotated[str, doc("Display name.")]
    available: Annotated[bool, doc("Whether the agent is available on the current plan.")]
    plan_required: Annotated[str, doc("Minimum plan needed for the agent.")]


class AgentList(msgspec.Struct, frozen=True):
    agents: Annotated[list[AgentView], doc("The agent types.")]
    next_cursor: NextCursor


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, PageQuery, _CURSORS.faults)
    after = _CURSORS.decode(query.cursor) or ""
    agents = sorted(call.context.catalog.all(), key=lambda agent: agent.id)
    views = [_view(call, agent) for agent in agents if agent.id > after]
    return Reply(200, AgentList(*_CURSORS.cut(views, query.limit, lambda view: view.id)))


def _view(call: Call, agent: Agent) -> AgentView:
    return AgentView(
        id=agent.id,
        name=agent.name,
        available=call.context.plans.allows(call.caller.plan, agent.plan_required),
        plan_required=agent.plan_required,
    )

"""`GET /agents`: every enabled agent type, and whether the caller's plan allows it."""

import re

import msgspec
from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import cut, read_page
from agentjobs.web.api.query import Query

MOST_LIMIT = 1_000

_CURSOR = "agents"
_is_agent_id = re.compile(r"[a-z0-9][a-z0-9-]{0,62}").fullmatch


class AgentView(msgspec.Struct, frozen=True):
    id: str
    name: str
    available: bool
    plan_required: str


class AgentList(msgspec.Struct, frozen=True):
    agents: list[AgentView]
    next_cursor: str | None


async def list_all(call: Call) -> Response:
    query = Query(call.scope)
    page = read_page(query, _CURSOR, _is_agent_id, most=MOST_LIMIT)
    query.check()
    agents = sorted(call.context.catalog.all(), key=lambda agent: agent.id)
    views = [_view(call, agent) for agent in agents if agent.id > (page.after or "")]
    return Reply(200, AgentList(*cut(views, page.limit, _CURSOR, lambda view: view.id)))


def _view(call: Call, agent: Agent) -> AgentView:
    return AgentView(
        id=agent.id,
        name=agent.name,
        available=call.context.plans.allows(call.caller.plan, agent.plan_required),
        plan_required=agent.plan_required,
    )

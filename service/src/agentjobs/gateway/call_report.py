"""How a model call ended, for the agent's log, without its prompt and its response."""

import msgspec

from agentjobs.gateway.usage import Usage


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is None without a response, `usage` if the provider did not report it,
    `cost_nanousd` if the model has no price."""

    model: str
    status: int | None
    usage: Usage | None
    cost_nanousd: int | None
    duration_ms: int

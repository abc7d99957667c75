"""Every fault of a job request at once. What a field may hold is declared in `model`."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from agentjobs.jobs.model import MAX_OVERRIDE_BYTES, CreateJobRequest
from agentjobs.worker_part.agents import Catalog
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.json_fields import find_faults
from agentjobs_runtime.problems import Fault

_OVERRIDE = "config_override"


class _PlainRequest(CreateJobRequest, frozen=True, forbid_unknown_fields=True):
    """A fast path for the bodies that most clients send."""


_decode_plain = msgspec.json.Decoder(_PlainRequest).decode


def plain_request(body: bytes) -> CreateJobRequest | None:
    """The request of a body that certainly has no faults; None if the body must be examined.

    Such a body has no escapes, no overrides and no unknown fields.
    """
    if not body.isascii() or b"\\" in body:
        return None
    try:
        request = _decode_plain(body)
    except msgspec.MsgspecError:
        return None
    if request.config_override is not None or not request.agent.isprintable():
        return None
    if request.labels and not all(map(str.isprintable, request.labels.values())):
        return None
    return request if (request.ticket_id or "").isprintable() else None


def request_faults(body: Mapping[str, Any], catalog: Catalog) -> list[Fault]:
    faults = find_faults(body, CreateJobRequest)
    override, agent_id = body.get(_OVERRIDE), body.get("agent")
    if not isinstance(override, dict):
        return faults
    faults += size_faults(override, _OVERRIDE)
    if isinstance(agent_id, str) and (agent := catalog.get(agent_id)):
        faults += cap_faults(override, agent, f"{_OVERRIDE}.", faults)
    return faults


def size_faults(override: Mapping[str, Any], field: str) -> list[Fault]:
    if len(msgspec.json.encode(override)) <= MAX_OVERRIDE_BYTES:
        return []
    return [{"field": field, "message": f"must be at most {MAX_OVERRIDE_BYTES} bytes as JSON"}]


def cap_faults(
    override: Mapping[str, Any], agent: Agent, prefix: str, known: list[Fault]
) -> list[Fault]:
    """A request may lower the limits of the agent, never raise them; `known` fields are skipped."""
    caps = {
        "timeout_seconds": agent.timeout_seconds,
        "max_cost_usd": agent.max_cost_usd or math.inf,
    }
    skipped = {fault["field"] for fault in known}
    return [
        {
            "field": prefix + name,
            "message": f"must be at most {cap:.12g}, the agent's limit",
        }
        for name, cap in caps.items()
        if prefix + name not in skipped and (override.get(name) or 0) > cap
    ]

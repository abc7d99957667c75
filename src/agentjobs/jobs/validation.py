"""Every fault of a job request at once, each with the field it is about. Asks no store."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from agentjobs.agents.catalog import Catalog
from agentjobs.agents.definitions import Agent
from agentjobs.git.remote import is_branch_name

MOST_OVERRIDE_BYTES = 16 * 1024
SEVERITIES = ("low", "medium", "moderate", "high", "critical", "none")

Fault = dict[str, str]

# GitLab has groups in groups.
_REPO = re.compile(r"[A-Za-z0-9_.-]{1,255}(?:/[A-Za-z0-9_.-]{1,255}){1,20}")
_MOST_SECONDS = 7 * 86_400


def faults_in(body: Mapping[str, Any], catalog: Catalog) -> list[Fault]:
    faults = [
        *_text_faults(body, "repo", 500, required=True),
        *_text_faults(body, "agent", 64, required=True),
        *_text_faults(body, "ticket_id", 255, required=False),
    ]
    repo = body.get("repo")
    if isinstance(repo, str) and repo and not _REPO.fullmatch(repo):
        faults.append(_fault("repo", "must have the form <owner>/<name>"))
    override = body.get("config_override")
    if override is not None:
        faults += _override_faults(override)
        agent_id = body.get("agent")
        agent = catalog.get(agent_id) if isinstance(agent_id, str) else None
        if agent is not None and isinstance(override, dict):
            faults += _cap_faults(override, agent)
    return faults


def _cap_faults(override: Mapping[str, Any], agent: Agent) -> list[Fault]:
    """A request may ask for less than the agent may use, never for more."""
    seconds, cost = override.get("timeout_seconds"), override.get("max_cost_usd")
    faults = []
    if isinstance(seconds, int) and seconds > agent.timeout_seconds:
        message = f"may lower the agent's {agent.timeout_seconds:g} seconds, never raise them"
        faults.append(_fault("config_override.timeout_seconds", message))
    if cost is not None and _is_number(cost) and cost > (agent.max_cost_usd or math.inf):
        message = f"may lower the agent's {agent.max_cost_usd} USD, never raise them"
        faults.append(_fault("config_override.max_cost_usd", message))
    return faults


def _text_faults(body: Mapping[str, Any], field: str, most: int, *, required: bool) -> list[Fault]:
    value = body.get(field)
    if value is None:
        return [_fault(field, "is required")] if required else []
    if not isinstance(value, str):
        return [_fault(field, "must be a string")]
    if not value.strip() or len(value) > most:
        return [_fault(field, f"must have 1 to {most} characters")]
    if _has_control_characters(value):
        return [_fault(field, "must not contain control characters")]
    return []


def _has_control_characters(value: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in value)


def _override_faults(override: Any) -> list[Fault]:
    if not isinstance(override, dict):
        return [_fault("config_override", "must be an object")]
    if len(msgspec.json.encode(override)) > MOST_OVERRIDE_BYTES:
        return [_fault("config_override", f"must be at most {MOST_OVERRIDE_BYTES} bytes as JSON")]
    faults = []
    for key, check in _CHECKS.items():
        if key in override:
            message = check(override[key])
            if message:
                faults.append(_fault(f"config_override.{key}", message))
    return faults


def _fault(field: str, message: str) -> Fault:
    return {"field": field, "message": message}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _severity(value: Any) -> str:
    if isinstance(value, str) and value.lower() in SEVERITIES:
        return ""
    return f"must be one of {', '.join(SEVERITIES)}"


def _prompt(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be a non-empty string"


def _branch(value: Any) -> str:
    fits = isinstance(value, str) and len(value) <= 200 and value != "HEAD"
    if fits and is_branch_name(value):
        return ""
    return "must be the name of a branch"


def _timeout(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_SECONDS:
        return ""
    return "must be a whole number of seconds above 0"


def _cost(value: Any) -> str:
    return "" if _is_number(value) and 0 < value <= 1_000_000 else "must be a number above 0"


def _draft(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _reviewers(value: Any) -> str:
    fits = isinstance(value, list) and len(value) <= 20
    if fits and all(
        isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable() for name in value
    ):
        return ""
    return "must be a list of at most 20 names"


def _title(value: Any) -> str:
    if isinstance(value, str) and value.strip() and len(value) <= 200 and value.isprintable():
        return ""
    return "must be one line of 1 to 200 characters"


_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "auto_trigger_on_cve_severity": _severity,
    "prompt": _prompt,
    "base_branch": _branch,
    "timeout_seconds": _timeout,
    "max_cost_usd": _cost,
    "draft": _draft,
    "reviewers": _reviewers,
    "title": _title,
}

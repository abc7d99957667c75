"""Descriptions of audit log actions, actors and details. Pure functions."""

from collections.abc import Mapping
from typing import Any

import msgspec

# What actions are about, by their part before the dot.
GROUPS: Mapping[str, str] = {
    "api_key": "API key",
    "budget": "Budget",
    "forge": "Platform",
    "invitation": "Invitation",
    "job": "Job",
    "member": "Member",
    "operator": "Operator",
    "organization": "Organization",
    "password": "Password",
    "plan": "Plan",
    "pull": "Pull request",
    "repo": "Repository",
    "secret": "Secret",
    "service": "Service",
    "sessions": "Sessions",
    "tracker": "Tracker",
    "user": "User",
    "vulnerability": "Vulnerability",
    "webhook": "Webhook",
    "worker": "Worker",
}


def describe_action(action: str) -> str:
    """Such as `API key created`; the action itself if it is about something unknown."""
    subject, _, event = action.partition(".")
    return f"{GROUPS[subject]} {event.replace('_', ' ')}" if subject in GROUPS else action


def describe_actor(kind: str) -> str:
    return "API key" if kind == "key" else kind


def describe_details(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _format_value(value)) for name, value in details.items()]


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    return msgspec.json.encode(value).decode()

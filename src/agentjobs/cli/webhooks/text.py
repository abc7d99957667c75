"""An endpoint in words: as a line of a table, and as a JSON document. Never a secret."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentjobs.webhooks.endpoints import Endpoint

TABLE = (
    *("id", "url", "events", "state", "last success", "last failure", "failing since"),
    *("next secret signs alone from", "description"),
)
FIELDS = ("id", "url", "description", "events", "enabled", "disabled_reason", "has_pending_secret")
TIMES = (
    *("disabled_at", "last_success_at", "last_failure_at", "failing_since", "promote_at"),
    "created_at",
)


def flag(endpoint: "Endpoint") -> str:
    from agentjobs.webhooks.endpoints import org_flag

    return org_flag(endpoint.organization)


def events_text(endpoint: "Endpoint") -> str:
    return ", ".join(endpoint.events) or "all events"


def document(endpoint: "Endpoint") -> dict[str, Any]:
    from agentjobs.clock import iso_utc_or_none

    fields: dict[str, Any] = {field: getattr(endpoint, field) for field in FIELDS}
    fields.update({field: iso_utc_or_none(getattr(endpoint, field)) for field in TIMES})
    return fields


def line(endpoint: "Endpoint") -> list[Any]:
    from agentjobs.webhooks.endpoints import disabled_text

    fields = document(endpoint)
    reason = disabled_text(endpoint)
    return [
        endpoint.id,
        endpoint.url,
        events_text(endpoint),
        f"disabled: {reason}" if reason else "enabled",
        *(fields[time] for time in ("last_success_at", "last_failure_at", "failing_since")),
        fields["promote_at"],
        endpoint.description or None,
    ]

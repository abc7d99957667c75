"""Parses and builds the query string of the audit log page."""

from datetime import tzinfo
from typing import Annotated, Literal

from msgspec import Meta

from agentjobs.organizations.audit import AuditFilter
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.list_query import ListQuery


class AuditQuery(ListQuery, frozen=True, kw_only=True):
    """The empty string means any. `until` is inclusive."""

    actor: str = ""
    actor_id: Annotated[str, Meta(pattern="^[a-z]{1,10}_[0-9A-Za-z]{1,64}$")] = ""
    action: Annotated[str, Meta(pattern="^[a-z_.]{1,100}$")] = ""
    since: str = ""
    until: str = ""
    format: Literal["", "csv"] = ""
    before: Annotated[str, Meta(pattern="^aud_[0-9a-z]{26}$")] = ""


def build_filter(query: AuditQuery, zone: tzinfo) -> AuditFilter:
    """Raises Problem for an invalid date."""
    since, until = between_days(query.since, query.until, zone)
    return AuditFilter(
        actor=query.actor or None,
        actor_id=query.actor_id or None,
        action=query.action or None,
        since=since,
        until=until,
    )

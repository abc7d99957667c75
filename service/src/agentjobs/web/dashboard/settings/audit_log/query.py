"""Parses and builds the query string of the audit log page."""

import re
from datetime import tzinfo
from urllib.parse import urlencode

import msgspec

from agentjobs.organizations.audit import AuditFilter
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.request_context import PageRequest

_is_id = re.compile(r"aud_[0-9a-z]{26}").fullmatch
_is_actor_id = re.compile(r"[a-z]{1,10}_[0-9A-Za-z]{1,64}").fullmatch
_is_action = re.compile(r"[a-z_.]{1,100}").fullmatch


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters; the empty string means any. `until` is inclusive."""

    actor: str = ""
    actor_id: str = ""
    action: str = ""
    since: str = ""
    until: str = ""
    before: str = ""

    @property
    def is_narrowed(self) -> bool:
        return bool(self.actor or self.actor_id or self.action or self.since or self.until)

    def address(self, **changes: str) -> str:
        """The query string of this view with some parameters changed."""
        fields = {**msgspec.structs.asdict(self), **changes}
        return urlencode({name: text for name, text in fields.items() if text})


def read_query(request: PageRequest) -> AuditQuery:
    before, action = request.query_param("before"), request.query_param("action")
    actor_id = request.query_param("actor_id")
    return AuditQuery(
        # PostgreSQL does not accept NUL in text.
        actor=request.query_param("actor").replace("\0", "\N{REPLACEMENT CHARACTER}"),
        actor_id=actor_id if _is_actor_id(actor_id) else "",
        action=action if _is_action(action) else "",
        since=request.query_param("since"),
        until=request.query_param("until"),
        before=before if _is_id(before) else "",
    )


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

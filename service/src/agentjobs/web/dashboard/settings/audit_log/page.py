"""Settings > Audit log: who did what, when and from where, as a page and as CSV."""

from datetime import tzinfo
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from agentjobs.organizations.audit import AuditFilter, AuditRecord, list_entries
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import HEADERS
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.audit_log.csv_export import MAX_ROWS, export_csv
from agentjobs.web.dashboard.settings.audit_log.text import (
    GROUPS,
    describe_action,
    describe_actor,
    describe_details,
)
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.problems import Problem

_PATH = "/settings/audit-log"
_PAGE = 50


class _Query(ListQuery, frozen=True, kw_only=True):
    """The empty string means any. `until` is inclusive."""

    actor: str = ""
    actor_id: Annotated[str, Meta(pattern="^[a-z]{1,10}_[0-9A-Za-z]{1,64}$")] = ""
    action: Annotated[str, Meta(pattern="^[a-z_.]{1,100}$")] = ""
    since: str = ""
    until: str = ""
    format: Literal["", "csv"] = ""
    before: Annotated[str, Meta(pattern="^aud_[0-9a-z]{26}$")] = ""


async def show(request: PageRequest) -> Response:
    query = _Query.read(request.query_param)
    try:
        audit_filter = _build_filter(query, request.zone)
    except Problem as problem:
        return await _page(request, query, [], problem=problem)
    if query.format:
        return await _csv_response(request, audit_filter)
    records = await list_entries(
        request.db,
        request.organization_id,
        audit_filter,
        limit=_PAGE + 1,
        before=query.before or None,
    )
    return await _page(request, query, records)


def _build_filter(query: _Query, zone: tzinfo) -> AuditFilter:
    """Raises Problem for an invalid date."""
    since, until = between_days(query.since, query.until, zone)
    return AuditFilter(
        actor=query.actor or None,
        actor_id=query.actor_id or None,
        action=query.action or None,
        since=since,
        until=until,
    )


async def _csv_response(request: PageRequest, audit_filter: AuditFilter) -> Response:
    text = await export_csv(request.db, request.organization_id, audit_filter)
    name = f"audit-log-{request.organization}-{iso_utc(now_ms())[:10]}.csv"
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv", headers={**HEADERS, **disposition})


async def _page(
    request: PageRequest,
    query: _Query,
    records: list[AuditRecord],
    *,
    problem: Problem | None = None,
) -> Response:
    shown, page_url = records[:_PAGE], request.settings.public_path + _PATH
    older = query.address(page_url, before=shown[-1].id) if len(records) > _PAGE else None
    return await request.render(
        "settings/audit_log.html",
        problem=problem,
        query=query,
        groups=_groups(query),
        records=shown,
        describe_actor=describe_actor,
        describe_action=describe_action,
        describe_details=describe_details,
        # Filters by the actor.
        actor_url=lambda record: _query_for_actor(record).address(page_url),
        all_actors=query.address(page_url, actor_id="", before=""),
        older=older,
        newest=query.address(page_url, before="") if query.before else None,
        csv_url=query.address(page_url, before="", format="csv"),
        max_rows=MAX_ROWS,
    )


def _groups(query: _Query) -> list[tuple[str, str, str]]:
    """Includes the selected action even if it is not a group."""
    known = [("", "Everything", ""), *((group, label, "") for group, label in GROUPS.items())]
    if query.action and query.action not in GROUPS:
        known.append((query.action, describe_action(query.action), ""))
    return known


def _query_for_actor(record: AuditRecord) -> _Query:
    """Filters by identifier if there is one, because names are not unique."""
    if record.actor_id:
        return _Query(actor_id=record.actor_id)
    return _Query(actor=record.actor)


ROUTES: Routes = [PageRoute("GET", _PATH, "admin", show)]

"""The events of an organization: for receivers that poll, or were down and catch up."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.model import EventView, JobId
from agentjobs.web.api.connected import long_poll
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursors, CursorText
from agentjobs.web.api.query import read_query
from agentjobs.webhooks.event_listing import ListedEvent, list_events, wait_for_events
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.json_fields import copy_fields, doc

_START = "0"
_is_position = re.compile(r"0|[1-9][0-9]{0,17}").fullmatch


class EventQuery(msgspec.Struct, frozen=True):
    cursor: Annotated[
        CursorText | None,
        doc("The `next_cursor` of the previous page; by default the oldest events are returned."),
    ] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=1_000)] = 100
    wait_seconds: Annotated[
        int, Meta(description="How long to wait for an event if there is none.", ge=0, le=60)
    ] = 0


class OrganizationEventView(EventView, frozen=True):
    job_id: JobId


class EventPage(msgspec.Struct, frozen=True):
    events: Annotated[list[OrganizationEventView], doc("A page of events, oldest first.")]
    next_cursor: Annotated[
        str, doc("The `cursor` of the next request; present on the last page, too.")
    ]
    has_more: Annotated[bool, doc("Whether there are more events already.")]


async def list_all(call: Call) -> Response:
    cursors = _cursors(call.caller.organization_id)
    query = read_query(call.scope, EventQuery, cursors.faults)
    after = cursors.decode(query.cursor) or _START
    # One more than requested shows whether there are more.
    events = await _list(call, int(after), query.limit + 1, query.wait_seconds)
    page = events[: query.limit]
    return Reply(
        200,
        EventPage(
            [_view(event) for event in page],
            cursors.encode(str(page[-1].position) if page else after),
            len(events) > query.limit,
        ),
    )


def _cursors(organization_id: str) -> Cursors:
    """Cursors of another organization are refused, because its positions mean nothing here."""
    return Cursors(f"events:{organization_id}", _is_position)


async def _list(call: Call, after: int, limit: int, seconds: int) -> list[ListedEvent]:
    db, organization_id = call.context.db, call.caller.organization_id
    if not seconds:
        return await list_events(db, organization_id, after=after, limit=limit)
    events = await long_poll(
        call,
        lambda: wait_for_events(db, organization_id, after=after, limit=limit, seconds=seconds),
    )
    return events or []


def _view(event: ListedEvent) -> OrganizationEventView:
    payload = msgspec.Raw(bytes(event.body))
    return copy_fields(
        event, OrganizationEventView, timestamp=iso_utc(event.created_at), payload=payload
    )

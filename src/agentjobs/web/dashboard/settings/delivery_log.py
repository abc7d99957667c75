"""Settings > Webhooks > Delivery log: what was sent and what came back; sending it again."""

import re
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.webhooks.endpoints import list_endpoints
from agentjobs.webhooks.log import (
    STATUSES,
    DeliveryDetail,
    DeliveryFilter,
    get_delivery,
    list_deliveries,
)
from agentjobs.webhooks.redelivery import redeliver, redeliver_failed

HERE = "/settings/webhooks/delivery-log"

_PER_PAGE = 50
# What one request may take on.
_MOST_AT_ONCE = 10_000
_SPANS = {"1": "the last 24 hours", "7": "the last 7 days", "30": "the last 30 days"}
_NOT_FOUND = "There is no such delivery in the log; it may be older than what is kept."
_DELIVERY_ID = re.compile("dlv_[0-9a-z]{26}")


async def show_list(visit: Visit) -> Response:
    wanted = _filter(visit)
    before = visit.query("before")
    page = await list_deliveries(
        visit.db,
        visit.organization_id,
        wanted,
        limit=_PER_PAGE,
        before=before if _DELIVERY_ID.fullmatch(before) else None,
    )
    kept = {name: visit.query(name) for name in ("status", "endpoint", "job", "days")}
    endpoints = await list_endpoints(visit.db, visit.organization)
    return await visit.page(
        "settings/delivery_log.html",
        deliveries=page.deliveries,
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        endpoint_options=[("", "any"), *((each.id, each.url) for each in endpoints)],
        day_options=[("", "any"), *_SPANS.items()],
        spans=_SPANS,
        kept=kept,
        is_filtered=any(kept.values()),
        older=_address(visit, kept, before=page.deliveries[-1].id) if page.more else "",
        newest=_address(visit, kept) if before else "",
    )


async def show_one(visit: Visit) -> Response:
    return await _detail_page(visit, _delivery_id(visit))


async def again(visit: Visit) -> Response:
    delivery_id = _delivery_id(visit)
    owner = await find_organization(visit.db, visit.organization)
    try:
        await redeliver(visit.db, owner, delivery_id)
    except Problem as problem:
        return await _detail_page(visit, delivery_id, _in_plain_words(problem))
    said = "It is being sent again, with the same webhook-id."
    return visit.redirect(f"{HERE}/{delivery_id}", said=said)


async def all_failed_again(visit: Visit) -> Response:
    days = visit.form.text("days")
    if days not in _SPANS:
        raise Problem("invalid_number", "Choose how far back to go, and send the form again.")
    since = now_ms() - int(days) * DAY_MS
    endpoint_id = visit.form.optional("endpoint")
    done = await redeliver_failed(
        visit.db, visit.organization_id, since, endpoint_id, most=_MOST_AT_ONCE
    )
    said = f"{done.count:,} failed deliveries are being sent again."
    if done.skipped:
        said += f" {done.skipped:,} were left alone: their endpoints are disabled or removed."
    if done.left:
        said += f" {done.left:,} are left: send the form again for them."
    return visit.redirect(HERE, said=said)


async def _detail_page(visit: Visit, delivery_id: str, problem: Problem | None = None) -> Response:
    owner = await find_organization(visit.db, visit.organization)
    try:
        detail = await get_delivery(visit.db, owner, delivery_id)
    except Problem as refused:
        raise _in_plain_words(refused) from None
    return await visit.page("settings/delivery.html", problem=problem, **_shown(detail))


def _filter(visit: Visit) -> DeliveryFilter:
    status = next((each for each in STATUSES if each == visit.query("status")), None)
    days = visit.query("days")
    return DeliveryFilter(
        status=status,
        job_id=visit.query("job") or None,
        endpoint_id=visit.query("endpoint") or None,
        since_ms=now_ms() - int(days) * DAY_MS if days in _SPANS else None,
    )


def _delivery_id(visit: Visit) -> str:
    delivery_id = visit.path("id")
    if not _DELIVERY_ID.fullmatch(delivery_id):
        raise Problem("delivery_not_found", _NOT_FOUND)
    return delivery_id


def _in_plain_words(problem: Problem) -> Problem:
    words = {
        "delivery_not_found": _NOT_FOUND,
        "ping_not_redelivered": "A ping is not sent again; its endpoint's page sends a new one.",
        "endpoint_disabled": "Its endpoint is disabled: enable it first, then send this again.",
        "endpoint_removed": "Its endpoint was removed, so there is nowhere to send this.",
    }
    return Problem(problem.code, words.get(problem.code, problem.message))


def _shown(detail: DeliveryDetail) -> dict[str, Any]:
    return {
        "delivery": detail.delivery,
        "body": detail.body.decode("utf-8", "replace"),
        "attempts": [
            {"seen": attempt, "text": attempt.response_body.decode("utf-8", "replace")}
            for attempt in reversed(detail.attempts)
        ],
    }


def _address(visit: Visit, kept: dict[str, str], **more: str) -> str:
    query = {name: value for name, value in {**kept, **more}.items() if value}
    return f"{prefix_of(visit.settings)}{HERE}?{urlencode(query)}"


PLACES: list[Place | OpenPlace] = [
    Place("GET", HERE, "member", show_list),
    Place("POST", f"{HERE}/redeliver-failed", "member", all_failed_again),
    Place("GET", f"{HERE}/{{id}}", "member", show_one),
    Place("POST", f"{HERE}/{{id}}/redeliver", "member", again),
]

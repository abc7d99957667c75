"""Settings > Webhooks > Delivery log: what was sent and what came back; sending it again."""

import re
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.request_context import PageRequest
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


async def show_list(request: PageRequest) -> Response:
    wanted = _filter(request)
    before = request.query_param("before")
    page = await list_deliveries(
        request.db,
        request.organization_id,
        wanted,
        limit=_PER_PAGE,
        before=before if _DELIVERY_ID.fullmatch(before) else None,
    )
    kept = {name: request.query_param(name) for name in ("status", "endpoint", "job", "days")}
    endpoints = await list_endpoints(request.db, request.organization)
    return await request.render(
        "settings/delivery_log.html",
        deliveries=page.deliveries,
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        endpoint_options=[("", "any"), *((each.id, each.url) for each in endpoints)],
        day_options=[("", "any"), *_SPANS.items()],
        spans=_SPANS,
        kept=kept,
        is_filtered=any(kept.values()),
        older=_address(request, kept, before=page.deliveries[-1].id) if page.more else "",
        newest=_address(request, kept) if before else "",
    )


async def show_one(request: PageRequest) -> Response:
    return await _detail_page(request, _delivery_id(request))


async def again(request: PageRequest) -> Response:
    delivery_id = _delivery_id(request)
    owner = await find_organization(request.db, request.organization)
    try:
        await redeliver(request.db, owner, delivery_id)
    except Problem as problem:
        return await _detail_page(request, delivery_id, _in_plain_words(problem))
    banner = "It is being sent again, with the same webhook-id."
    return request.redirect(f"{HERE}/{delivery_id}", banner=banner)


async def all_failed_again(request: PageRequest) -> Response:
    days = request.form.text("days")
    if days not in _SPANS:
        raise Problem("invalid_number", "Choose how far back to go, and send the form again.")
    since = now_ms() - int(days) * DAY_MS
    endpoint_id = request.form.optional("endpoint")
    done = await redeliver_failed(
        request.db, request.organization_id, since, endpoint_id, most=_MOST_AT_ONCE
    )
    banner = f"{done.count:,} failed deliveries are being sent again."
    if done.skipped:
        banner += f" {done.skipped:,} were left alone: their endpoints are disabled or removed."
    if done.left:
        banner += f" {done.left:,} are left: send the form again for them."
    return request.redirect(HERE, banner=banner)


async def _detail_page(
    request: PageRequest, delivery_id: str, problem: Problem | None = None
) -> Response:
    owner = await find_organization(request.db, request.organization)
    try:
        detail = await get_delivery(request.db, owner, delivery_id)
    except Problem as refused:
        raise _in_plain_words(refused) from None
    return await request.render("settings/delivery.html", problem=problem, **_shown(detail))


def _filter(request: PageRequest) -> DeliveryFilter:
    status = next((each for each in STATUSES if each == request.query_param("status")), None)
    days = request.query_param("days")
    return DeliveryFilter(
        status=status,
        job_id=request.query_param("job") or None,
        endpoint_id=request.query_param("endpoint") or None,
        since_ms=now_ms() - int(days) * DAY_MS if days in _SPANS else None,
    )


def _delivery_id(request: PageRequest) -> str:
    delivery_id = request.path_param("id")
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


def _address(request: PageRequest, kept: dict[str, str], **more: str) -> str:
    query = {name: value for name, value in {**kept, **more}.items() if value}
    return f"{prefix_of(request.settings)}{HERE}?{urlencode(query)}"


ROUTES: Routes = [
    PageRoute("GET", HERE, "member", show_list),
    PageRoute("POST", f"{HERE}/redeliver-failed", "member", all_failed_again),
    PageRoute("GET", f"{HERE}/{{id}}", "member", show_one),
    PageRoute("POST", f"{HERE}/{{id}}/redeliver", "member", again),
]

"""Settings > Webhooks > Delivery log: deliveries, their attempts, and redelivery."""

import shlex
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.organizations.organizations import find_organization
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted
from agentjobs.webhooks.endpoints import list_endpoints
from agentjobs.webhooks.log import (
    STATUSES,
    DeliveryDetail,
    DeliveryFilter,
    get_delivery,
    list_deliveries,
)
from agentjobs.webhooks.model import DeliveryStatus
from agentjobs.webhooks.redelivery import redeliver, redeliver_failed
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem

PATH = "/settings/webhooks/delivery-log"

_PER_PAGE = 50
_SPANS = {"1": "the last 24 hours", "7": "the last 7 days", "30": "the last 30 days"}
_NOT_FOUND = "There is no such delivery in the log. It may have expired."
# Whatever sends a request sets them itself.
_HEADERS_OF_CLIENTS = {"host", "content-length", "connection", "accept", "accept-encoding"}
_LIVE_PARTS = ("settings/delivery_state", "settings/delivery_attempts")
_ID_PATTERN = "^dlv_[0-9a-z]{26}$"


class _Query(ListQuery, frozen=True, kw_only=True):
    status: DeliveryStatus | None = None
    endpoint: str = ""
    job: str = ""
    days: Literal["", "1", "7", "30"] = ""
    before: Annotated[str, Meta(pattern=_ID_PATTERN)] = ""

    @property
    def filter(self) -> DeliveryFilter:
        return DeliveryFilter(
            status=self.status,
            job_id=self.job or None,
            endpoint_id=self.endpoint or None,
            since_ms=now_ms() - int(self.days) * DAY_MS if self.days else None,
        )


async def show_list(request: PageRequest) -> Response:
    query, page_url = _Query.read(request.query_param), request.settings.public_path + PATH
    page = await list_deliveries(
        request.db,
        request.organization_id,
        query.filter,
        limit=_PER_PAGE,
        before=query.before or None,
    )
    endpoints = await list_endpoints(request.db, request.organization)
    last = page.deliveries[-1].id if page.has_more else ""
    return await request.render(
        "settings/delivery_log.html",
        page=page,
        deliveries=page.deliveries,
        form="selected",
        # All rows of one endpoint have the same URL.
        shows_url=not query.endpoint,
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        endpoint_options=[("", "any"), *((endpoint.id, endpoint.url) for endpoint in endpoints)],
        day_options=[("", "any"), *_SPANS.items()],
        spans=_SPANS,
        query=query,
        older=query.address(page_url, before=last) if last else "",
        newest=query.address(page_url, before="") if query.before else "",
    )


async def redeliver_one(request: PageRequest) -> Response:
    delivery_id = request.path_param("id")
    owner = await find_organization(request.db, request.organization)
    await redeliver(request.db, owner, delivery_id)
    banner = "Redelivery started with the same webhook-id."
    return request.redirect(f"{PATH}/{delivery_id}", banner=banner)


async def redeliver_selected(request: PageRequest) -> Response:
    """Redelivers what is possible; the banner says why others were not."""
    owner = await find_organization(request.db, request.organization)
    selected = list(dict.fromkeys(request.form.all("delivery")))[:_PER_PAGE]
    if not selected:
        return request.redirect(PATH, banner="Select deliveries first.", tone="warn")
    problems = []
    for delivery_id in selected:
        try:
            await redeliver(request.db, owner, delivery_id)
        except Problem as problem:
            problems.append(_for_page(problem).message)
    text = f"Redelivering {counted(len(selected) - len(problems), 'delivery', 'deliveries')}."
    if problems:
        text += f" {len(problems)} unchanged: {problems[0]}"
    return request.redirect(PATH, banner=text, tone="warn" if problems else "good")


async def redeliver_all_failed(request: PageRequest) -> Response:
    days = request.form.text("days")
    if days not in _SPANS:
        raise Problem("invalid_number", "Choose a period and submit the form again.")
    since = now_ms() - int(days) * DAY_MS
    endpoint_id = request.form.optional("endpoint")
    result = await redeliver_failed(request.db, request.organization_id, since, endpoint_id)
    banner = f"Redelivering {result.count:,} failed deliveries."
    if result.skipped:
        banner += (
            f" {result.skipped:,} were skipped because their webhooks are disabled or removed."
        )
    return request.redirect(PATH, banner=banner)


async def show_one(request: PageRequest, problem: Problem | None = None) -> Response:
    detail = await _load(request)
    return await request.render(
        "settings/delivery.html",
        problem=problem and _for_page(problem),
        delivery=detail.delivery,
        body=msgspec.json.format(detail.body).decode("utf-8", "replace"),
        curl=_as_curl(detail),
        attempts=[
            {"attempt": attempt, "text": attempt.response_body.decode("utf-8", "replace")}
            for attempt in reversed(detail.delivery.attempts)
        ],
    )


async def _load(request: PageRequest) -> DeliveryDetail:
    owner = await find_organization(request.db, request.organization)
    try:
        return await get_delivery(request.db, owner, request.path_param("id"))
    except Problem as error:
        raise _for_page(error) from None


def _for_page(problem: Problem) -> Problem:
    messages = {
        "delivery_not_found": _NOT_FOUND,
        "ping_not_redelivered": "A test cannot be redelivered; send a new one instead.",
        "endpoint_disabled": "The webhook is disabled. Enable it first, then redeliver.",
        "endpoint_removed": "The webhook was removed, so this cannot be redelivered.",
    }
    return Problem(problem.code, messages.get(problem.code, problem.message))


def _as_curl(detail: DeliveryDetail) -> str:
    """The last request again, with its signature, which receivers accept for some minutes."""
    attempts = detail.delivery.attempts
    headers = attempts[-1].request_headers if attempts else ()
    kept = [
        f"{name}: {value}" for name, value in headers if name.lower() not in _HEADERS_OF_CLIENTS
    ]
    parts = ["curl", shlex.quote(detail.delivery.url)]
    parts += [f"--header {shlex.quote(header)}" for header in kept]
    parts.append(f"--data-raw {shlex.quote(detail.body.decode('utf-8', 'replace'))}")
    return " \\\n  ".join([" ".join(parts[:2]), *parts[2:]])


ROUTES: Routes = [
    *live_page(PATH, "member", show_list, "settings/delivery_list"),
    PageRoute("POST", f"{PATH}/redeliver-failed", "member", redeliver_all_failed),
    PageRoute("POST", f"{PATH}/redeliver-selected", "member", redeliver_selected),
    *live_page(f"{PATH}/{{id}}", "member", show_one, *_LIVE_PARTS),
    PageRoute("POST", f"{PATH}/{{id}}/redeliver", "member", redeliver_one, problem_page=show_one),
]

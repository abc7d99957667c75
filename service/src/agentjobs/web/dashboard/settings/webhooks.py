"""Settings > Webhooks: the endpoints. A secret is shown once, in response to its form."""

from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.webhook_plots import load_plots
from agentjobs.webhooks import endpoints
from agentjobs.webhooks.allowed_addresses import SETTING as ALLOW_SETTING
from agentjobs.webhooks.allowed_addresses import load_allow_list
from agentjobs.webhooks.endpoints import Endpoint, find_endpoint, list_endpoints
from agentjobs.webhooks.events import EVENTS, PING
from agentjobs.webhooks.health import load_retries
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs.webhooks.ping import TEST_EVENTS, sample_event, send_test
from agentjobs.webhooks.registration import add_endpoint, update_endpoint
from agentjobs.webhooks.secret_rotation import promote_secret, rotate_secret
from agentjobs.webhooks.targets import BlockedTarget
from agentjobs_runtime.problems import Problem

PATH = "/settings/webhooks"

_LIVE_PARTS = ("settings/webhook_state", "settings/webhook_deliveries")
_SHOWN_DELIVERIES = 10
_EVENT_DESCRIPTIONS = {
    "job.queued": "a job was accepted and is waiting to start",
    "job.started": "the agent started",
    "job.completed": "a pull request was opened",
    "job.failed": "the job failed or was cancelled",
    "pr.review_requested": "the pull request is ready for review",
}


async def add(request: PageRequest) -> Response:
    created = await add_endpoint(
        request.db,
        request.context.keys,
        request.organization,
        request.form.text("url"),
        description=request.form.text("description"),
        events=_filter(request.form.all("events")),
        allowed=await load_allow_list(request.db, request.settings),
        has_proxy=bool(request.settings.webhooks_proxy),
    )
    return await _detail_page(
        request, created.endpoint, secret=created.secret, warning=created.warning
    )


async def show_one(request: PageRequest, problem: Problem | None = None) -> Response:
    return await _detail_page(request, await _endpoint(request), problem)


async def show_edited(request: PageRequest, problem: Problem) -> Response:
    endpoint, values = await _endpoint(request), _form_values(request)
    return await _detail_page(request, endpoint, _for_page(problem), **values)


async def edit(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    _, warning = await update_endpoint(
        request.db,
        request.organization,
        endpoint.id,
        url=request.form.text("url"),
        description=request.form.text("description"),
        events=_filter(request.form.all("events")),
        allowed=await load_allow_list(request.db, request.settings),
        has_proxy=bool(request.settings.webhooks_proxy),
    )
    if warning:
        return request.redirect(_endpoint_path(endpoint), banner=f"Saved. {warning}", tone="warn")
    return request.redirect(_endpoint_path(endpoint), banner="Saved.")


async def test(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    event = request.form.text("event") or PING
    allowed = await load_allow_list(request.db, request.settings)
    delivery_id, attempt = await send_test(
        request.db, request.context.keys, request.settings, endpoint.id, allowed, event
    )
    log = f"{PATH}/delivery-log/{delivery_id}"
    if attempt.succeeded:
        return request.redirect(log, banner="The test was delivered.")
    return request.redirect(log, banner="The test was not delivered.", tone="bad")


async def rotate(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    hours = request.form.whole_number("overlap_hours", "Hours")
    rotated, secret = await rotate_secret(
        request.db,
        request.context.keys,
        request.organization,
        endpoint.id,
        24 if hours is None else hours,
    )
    return await _detail_page(request, rotated, secret=secret)


async def promote(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    if not endpoint.has_pending_secret:
        return request.redirect(
            _endpoint_path(endpoint), banner="The new secret is already in use."
        )
    await promote_secret(request.db, request.organization, endpoint.id)
    return request.redirect(
        _endpoint_path(endpoint),
        banner="The new secret is now in use. The old secret no longer signs requests.",
    )


async def disable(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.disable_endpoint(request.db, request.organization, endpoint.id)
    return request.redirect(_endpoint_path(endpoint), banner="The webhook was disabled.")


async def enable(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.enable_endpoint(request.db, request.organization, endpoint.id)
    banner = "The webhook was enabled. You can redeliver failed deliveries from the delivery log."
    return request.redirect(_endpoint_path(endpoint), banner=banner)


async def remove(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.remove_endpoint(request.db, request.organization, endpoint.id)
    return request.redirect(PATH, banner=f"{endpoint.url} was removed.")


async def _endpoint(request: PageRequest) -> Endpoint:
    try:
        return await find_endpoint(request.db, request.organization, request.path_param("id"))
    except Problem:
        raise Problem("not_found", "There is no such webhook. It may have been removed.") from None


async def show_list(request: PageRequest, problem: Problem | None = None) -> Response:
    return await request.render(
        "settings/webhooks.html",
        problem=problem and _for_page(problem),
        events=_EVENT_DESCRIPTIONS,
        endpoints=await list_endpoints(request.db, request.organization),
        retries=await load_retries(request.db, request.organization_id),
        **_form_values(request),
    )


def _form_values(request: PageRequest) -> dict[str, Any]:
    form = request.form
    texts = {name: form.text(name) for name in ("url", "description")}
    return {**texts, "selected_events": form.all("events")}


async def _detail_page(
    request: PageRequest, endpoint: Endpoint, problem: Problem | None = None, **values: Any
) -> Response:
    event = request.query_param("event")
    sample = sample_event(event if event in TEST_EVENTS else PING)
    recent = await list_deliveries(
        request.db,
        request.organization_id,
        DeliveryFilter(endpoint_id=endpoint.id),
        limit=_SHOWN_DELIVERIES,
    )
    retries = await load_retries(request.db, request.organization_id)
    template_values: dict[str, Any] = {
        "secret": "",
        "warning": None,
        "url": endpoint.url,
        "description": endpoint.description,
        "selected_events": endpoint.events,
        **values,
    }
    return await request.render(
        "settings/webhook.html",
        problem=problem,
        reason=disabled_reason_text(endpoint),
        events=_EVENT_DESCRIPTIONS,
        sample=sample,
        sample_body=msgspec.json.format(msgspec.json.encode(sample.payload)).decode(),
        sample_events=TEST_EVENTS,
        endpoint=endpoint,
        retries=retries.get(endpoint.id),
        deliveries=recent.deliveries,
        **await load_plots(request, endpoint),
        **template_values,
    )


def _for_page(problem: Problem) -> Problem:
    """Replaces advice meant for the command line or the operator."""
    if isinstance(problem, BlockedTarget):
        message = (
            f"{problem.reason}. Use a public https address; the operator of the service can allow "
            f"others with {ALLOW_SETTING}."
        )
        return Problem(problem.code, message)
    if problem.code == "too_many_endpoints":
        message = "The limit of webhooks is reached. Remove one that is not needed."
        return Problem(problem.code, message)
    return problem


def disabled_reason_text(endpoint: Endpoint) -> str:
    """Why the endpoint is disabled; empty while it is enabled."""
    return {
        "gone": "The receiver responded with 410 Gone.",
        "failing": "All deliveries failed for several days.",
        "by_hand": "Disabled by an admin.",
    }.get(endpoint.disabled_reason or "", "" if endpoint.enabled else "Disabled.")


def _filter(events: list[str]) -> list[str]:
    """Selecting all events means no filter, which includes events added later."""
    return [] if set(events) >= set(EVENTS) else events


def _endpoint_path(endpoint: Endpoint) -> str:
    return f"{PATH}/{endpoint.id}"


# After the delivery log's routes, whose path would match as an endpoint.
ROUTES: Routes = [
    *live_page(PATH, "member", show_list, "settings/webhook_rows"),
    PageRoute("POST", PATH, "admin", add, problem_page=show_list),
    *live_page(f"{PATH}/{{id}}", "member", show_one, *_LIVE_PARTS),
    PageRoute("POST", f"{PATH}/{{id}}", "admin", edit, problem_page=show_edited),
    PageRoute("POST", f"{PATH}/{{id}}/test", "admin", test, problem_page=show_one),
    PageRoute("POST", f"{PATH}/{{id}}/rotate", "admin", rotate, problem_page=show_one),
    PageRoute("POST", f"{PATH}/{{id}}/promote", "admin", promote),
    PageRoute("POST", f"{PATH}/{{id}}/disable", "admin", disable),
    PageRoute("POST", f"{PATH}/{{id}}/enable", "admin", enable),
    PageRoute("POST", f"{PATH}/{{id}}/remove", "admin", remove),
]

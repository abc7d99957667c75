"""Settings > Webhooks: where events are sent. A secret is shown once, on the answer to its form."""

from typing import Any

from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.webhooks import endpoints
from agentjobs.webhooks.allowed_addresses import SETTING as ALLOWANCE
from agentjobs.webhooks.allowed_addresses import load_allow_list
from agentjobs.webhooks.endpoints import Endpoint, find_endpoint, list_endpoints
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs.webhooks.ping import send_ping
from agentjobs.webhooks.registration import add_endpoint, update_endpoint
from agentjobs.webhooks.secret_rotation import promote_secret, rotate_secret

HERE = "/settings/webhooks"

_SHOWN_DELIVERIES = 10
_MEANINGS = {
    "job.queued": "a job was accepted and waits to start",
    "job.started": "its agent began to run",
    "job.completed": "a pull request was opened",
    "job.failed": "it stopped without a pull request, or was cancelled",
    "pr.review_requested": "the pull request is ready for review",
}


async def show_list(request: PageRequest) -> Response:
    return await _list_page(request)


async def add(request: PageRequest) -> Response:
    form = request.form
    typed = {"url": form.text("url"), "description": form.text("description")}
    wanted = form.all("events")
    try:
        created = await add_endpoint(
            request.db,
            request.context.keys,
            request.organization,
            typed["url"],
            description=typed["description"],
            events=_filter(wanted),
            allowed=await load_allow_list(request.db, request.settings),
            has_proxy=bool(request.settings.webhooks_proxy),
        )
    except Problem as problem:
        return await _list_page(request, problem=_for_people(problem), **typed, wanted=wanted)
    return await _detail_page(
        request, created.endpoint, secret=created.secret, warning=created.warning
    )


async def show_one(request: PageRequest) -> Response:
    return await _detail_page(request, await _endpoint(request))


async def edit(request: PageRequest) -> Response:
    form, endpoint = request.form, await _endpoint(request)
    typed = {"url": form.text("url"), "description": form.text("description")}
    wanted = form.all("events")
    try:
        _, warning = await update_endpoint(
            request.db,
            request.organization,
            endpoint.id,
            url=typed["url"],
            description=typed["description"],
            events=_filter(wanted),
            allowed=await load_allow_list(request.db, request.settings),
            has_proxy=bool(request.settings.webhooks_proxy),
        )
    except Problem as problem:
        refused = _for_people(problem)
        return await _detail_page(request, endpoint, problem=refused, **typed, wanted=wanted)
    if warning:
        return request.redirect(_place(endpoint), banner=f"Saved. {warning}", tone="warn")
    return request.redirect(_place(endpoint), banner="Saved.")


async def ping(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    allowed = await load_allow_list(request.db, request.settings)
    delivery_id, attempt = await send_ping(
        request.db, request.context.keys, request.settings, endpoint.id, allowed
    )
    log = f"{HERE}/delivery-log/{delivery_id}"
    if attempt.succeeded:
        return request.redirect(log, banner="The ping was delivered.")
    return request.redirect(log, banner="The ping was not delivered.", tone="bad")


async def rotate(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    try:
        hours = request.form.whole_number("overlap_hours", "Hours")
        rotated, secret = await rotate_secret(
            request.db,
            request.context.keys,
            request.organization,
            endpoint.id,
            24 if hours is None else hours,
        )
    except Problem as problem:
        return await _detail_page(request, endpoint, problem=problem)
    return await _detail_page(request, rotated, secret=secret)


async def promote(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    if not endpoint.has_pending_secret:
        return request.redirect(_place(endpoint), banner="The newest secret signs alone already.")
    await promote_secret(request.db, request.organization, endpoint.id)
    return request.redirect(_place(endpoint), banner="The new secret signs alone from now on.")


async def disable(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.disable_endpoint(request.db, request.organization, endpoint.id)
    return request.redirect(_place(endpoint), banner="Nothing is sent there any more.")


async def enable(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.enable_endpoint(request.db, request.organization, endpoint.id)
    banner = "Events are sent there again, from now on. What failed can be redelivered."
    return request.redirect(_place(endpoint), banner=banner)


async def remove(request: PageRequest) -> Response:
    endpoint = await _endpoint(request)
    await endpoints.remove_endpoint(request.db, request.organization, endpoint.id)
    return request.redirect(HERE, banner=f"{endpoint.url} is removed.")


async def _endpoint(request: PageRequest) -> Endpoint:
    try:
        return await find_endpoint(request.db, request.organization, request.path_param("id"))
    except Problem:
        raise Problem("not_found", "There is no such endpoint; it may have been removed.") from None


async def _list_page(
    request: PageRequest, problem: Problem | None = None, **values: Any
) -> Response:
    shown: dict[str, Any] = {"url": "", "description": "", "wanted": [], **values}
    return await request.render(
        "settings/webhooks.html",
        problem=problem,
        endpoints=await list_endpoints(request.db, request.organization),
        events=_MEANINGS,
        **shown,
    )


async def _detail_page(
    request: PageRequest, endpoint: Endpoint, problem: Problem | None = None, **values: Any
) -> Response:
    recent = await list_deliveries(
        request.db,
        request.organization_id,
        DeliveryFilter(endpoint_id=endpoint.id),
        limit=_SHOWN_DELIVERIES,
    )
    shown: dict[str, Any] = {
        "secret": "",
        "warning": None,
        "url": endpoint.url,
        "description": endpoint.description,
        "wanted": endpoint.events,
        **values,
    }
    return await request.render(
        "settings/webhook.html",
        problem=problem,
        endpoint=endpoint,
        reason=reason_words(endpoint),
        events=_MEANINGS,
        deliveries=recent.deliveries,
        **shown,
    )


def _for_people(problem: Problem) -> Problem:
    """Where an operation's advice is for a terminal, or for whoever set the service up."""
    if problem.code == "blocked_address":
        # The reason alone; the advice follows it.
        reason = problem.message.partition(". ")[0].partition("; ")[0]
        message = (
            f"{reason}. Choose a public https address; the operator of the service can allow "
            f"others with {ALLOWANCE}."
        )
        return Problem(problem.code, message)
    if problem.code == "too_many_endpoints":
        message = "There are as many endpoints as there may be; remove one that is not needed."
        return Problem(problem.code, message)
    return problem


def reason_words(endpoint: Endpoint) -> str:
    """Why nothing is sent there; empty while something is."""
    return {
        "gone": "The receiver answered 410 Gone: it does not want events any more.",
        "failing": "Every delivery failed for days, so sending was given up.",
        "by_hand": "Somebody disabled it by hand.",
    }.get(endpoint.disabled_reason or "", "" if endpoint.enabled else "It is disabled.")


def _filter(events: list[str]) -> list[str]:
    """All of them is the same as no filter: then it also gets what later versions send."""
    return [] if set(events) >= set(EVENTS) else events


def _place(endpoint: Endpoint) -> str:
    return f"{HERE}/{endpoint.id}"


# After those of the delivery log, whose address would be an endpoint's otherwise.
ROUTES: Routes = [
    PageRoute("GET", HERE, "member", show_list),
    PageRoute("POST", HERE, "admin", add),
    PageRoute("GET", f"{HERE}/{{id}}", "member", show_one),
    PageRoute("POST", f"{HERE}/{{id}}", "admin", edit),
    PageRoute("POST", f"{HERE}/{{id}}/test", "admin", ping),
    PageRoute("POST", f"{HERE}/{{id}}/rotate", "admin", rotate),
    PageRoute("POST", f"{HERE}/{{id}}/promote", "admin", promote),
    PageRoute("POST", f"{HERE}/{{id}}/disable", "admin", disable),
    PageRoute("POST", f"{HERE}/{{id}}/enable", "admin", enable),
    PageRoute("POST", f"{HERE}/{{id}}/remove", "admin", remove),
]

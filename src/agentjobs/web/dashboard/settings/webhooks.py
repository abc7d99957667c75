"""Settings > Webhooks: where events are sent. A secret is shown once, on the answer to its form."""

from typing import Any

from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.webhooks import endpoints
from agentjobs.webhooks.allowed_addresses import SETTING as ALLOWANCE
from agentjobs.webhooks.allowed_addresses import stored_allowance
from agentjobs.webhooks.editing import update_endpoint
from agentjobs.webhooks.endpoints import Endpoint, find_endpoint, list_endpoints
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs.webhooks.ping import send_ping
from agentjobs.webhooks.registration import add_endpoint
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


async def show_list(visit: Visit) -> Response:
    return await _list_page(visit)


async def add(visit: Visit) -> Response:
    form = visit.form
    typed = {"url": form.text("url"), "description": form.text("description")}
    wanted = form.all("events")
    try:
        created = await add_endpoint(
            visit.db,
            visit.context.keys,
            visit.organization,
            typed["url"],
            description=typed["description"],
            events=_filter(wanted),
            allowed=await stored_allowance(visit.db, visit.settings),
            has_proxy=bool(visit.settings.webhooks_proxy),
        )
    except Problem as problem:
        return await _list_page(visit, problem=_for_people(problem), **typed, wanted=wanted)
    return await _detail_page(
        visit, created.endpoint, secret=created.secret, warning=created.warning
    )


async def show_one(visit: Visit) -> Response:
    return await _detail_page(visit, await _endpoint(visit))


async def edit(visit: Visit) -> Response:
    form, endpoint = visit.form, await _endpoint(visit)
    typed = {"url": form.text("url"), "description": form.text("description")}
    wanted = form.all("events")
    try:
        _, warning = await update_endpoint(
            visit.db,
            visit.organization,
            endpoint.id,
            url=typed["url"],
            description=typed["description"],
            events=_filter(wanted),
            allowed=await stored_allowance(visit.db, visit.settings),
            has_proxy=bool(visit.settings.webhooks_proxy),
        )
    except Problem as problem:
        refused = _for_people(problem)
        return await _detail_page(visit, endpoint, problem=refused, **typed, wanted=wanted)
    if warning:
        return visit.redirect(_place(endpoint), said=f"Saved. {warning}", tone="warn")
    return visit.redirect(_place(endpoint), said="Saved.")


async def ping(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    allowed = await stored_allowance(visit.db, visit.settings)
    delivery_id, attempt = await send_ping(
        visit.db, visit.context.keys, visit.settings, endpoint.id, allowed
    )
    log = f"{HERE}/delivery-log/{delivery_id}"
    if attempt.succeeded:
        return visit.redirect(log, said="The ping was delivered.")
    return visit.redirect(log, said="The ping was not delivered.", tone="bad")


async def rotate(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    try:
        hours = visit.form.whole_number("overlap_hours", "Hours")
        rotated, secret = await rotate_secret(
            visit.db,
            visit.context.keys,
            visit.organization,
            endpoint.id,
            24 if hours is None else hours,
        )
    except Problem as problem:
        return await _detail_page(visit, endpoint, problem=problem)
    return await _detail_page(visit, rotated, secret=secret)


async def promote(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    if not endpoint.has_pending_secret:
        return visit.redirect(_place(endpoint), said="The newest secret signs alone already.")
    await promote_secret(visit.db, visit.organization, endpoint.id)
    return visit.redirect(_place(endpoint), said="The new secret signs alone from now on.")


async def disable(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    await endpoints.disable_endpoint(visit.db, visit.organization, endpoint.id)
    return visit.redirect(_place(endpoint), said="Nothing is sent there any more.")


async def enable(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    await endpoints.enable_endpoint(visit.db, visit.organization, endpoint.id)
    said = "Events are sent there again, from now on. What failed can be redelivered."
    return visit.redirect(_place(endpoint), said=said)


async def remove(visit: Visit) -> Response:
    endpoint = await _endpoint(visit)
    await endpoints.remove_endpoint(visit.db, visit.organization, endpoint.id)
    return visit.redirect(HERE, said=f"{endpoint.url} is removed.")


async def _endpoint(visit: Visit) -> Endpoint:
    try:
        return await find_endpoint(visit.db, visit.organization, visit.path("id"))
    except Problem:
        raise Problem("not_found", "There is no such endpoint; it may have been removed.") from None


async def _list_page(visit: Visit, problem: Problem | None = None, **values: Any) -> Response:
    shown: dict[str, Any] = {"url": "", "description": "", "wanted": [], **values}
    return await visit.page(
        "settings/webhooks.html",
        problem=problem,
        endpoints=await list_endpoints(visit.db, visit.organization),
        events=_MEANINGS,
        **shown,
    )


async def _detail_page(
    visit: Visit, endpoint: Endpoint, problem: Problem | None = None, **values: Any
) -> Response:
    recent = await list_deliveries(
        visit.db,
        visit.organization_id,
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
    return await visit.page(
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
PLACES: list[Place | OpenPlace] = [
    Place("GET", HERE, "member", show_list),
    Place("POST", HERE, "admin", add),
    Place("GET", f"{HERE}/{{id}}", "member", show_one),
    Place("POST", f"{HERE}/{{id}}", "admin", edit),
    Place("POST", f"{HERE}/{{id}}/test", "admin", ping),
    Place("POST", f"{HERE}/{{id}}/rotate", "admin", rotate),
    Place("POST", f"{HERE}/{{id}}/promote", "admin", promote),
    Place("POST", f"{HERE}/{{id}}/disable", "admin", disable),
    Place("POST", f"{HERE}/{{id}}/enable", "admin", enable),
    Place("POST", f"{HERE}/{{id}}/remove", "admin", remove),
]

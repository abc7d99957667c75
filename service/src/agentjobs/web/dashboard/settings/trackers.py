"""Settings > Trackers: where tickets are looked up. Tokens are never shown."""

from functools import partial
from typing import Literal

import msgspec
from starlette.responses import Response

from agentjobs.tickets import trackers
from agentjobs.tickets.rows import ConfiguredTracker
from agentjobs.tickets.trackers import NewTracker
from agentjobs.tickets.verify import check_tracker, verify_and_add, verify_and_replace
from agentjobs.web.dashboard.page_route import PageHandler, PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.platform_access import (
    open_session,
    page_retry_budget,
    page_timeout,
)
from agentjobs_runtime.problems import Problem

Form = Literal["issues", "jira", "token"]

PATH = "/settings/trackers"

_FIELD_OF = {
    "invalid_url": "url",
    "invalid_account": "account",
    "invalid_credential": "token",
    "invalid_name": "name",
    "name_taken": "name",
    "tracker_refused": "token",
}
_FLAVOURS = {
    "": "Detect from the address",
    "cloud": "Jira Cloud",
    "data-center": "Jira Data Center",
}


class _FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the Jira form, without the token."""

    url: str = ""
    account: str = ""
    flavour: str = ""
    name: str = ""
    link_back: bool = False


async def add_issues(request: PageRequest) -> Response:
    new = NewTracker(kind="issues", link_back=request.form.flag("link_back"))
    await trackers.add_tracker(request.db, request.context.keys, request.organization, new)
    banner = "Tracker added. Issues are looked up through each repository's platform connection."
    return request.redirect(PATH, banner=banner)


async def add_jira(request: PageRequest) -> Response:
    form_values = request.form.fill(_FormValues)
    new = _new(form_values, request.form.text("token"))
    async with page_timeout("Jira", "Nothing was added."), open_session(request) as session:
        added, known_as = await verify_and_add(
            request.db,
            request.context.keys,
            session,
            request.organization,
            new,
            page_retry_budget(),
        )
    return request.redirect(
        PATH, banner=f"{added.name} was added. It is signed in to {added.url} as {known_as}."
    )


async def check(request: PageRequest) -> Response:
    tracker = await _tracker(request)
    try:
        async with page_timeout(tracker.name, "Try again later."), open_session(request) as session:
            _, known_as = await check_tracker(
                request.db,
                request.context.keys,
                session,
                request.organization,
                tracker.id,
                page_retry_budget(),
            )
    except Problem as problem:
        if problem.code == "forge_unavailable":
            await trackers.record_check(request.db, tracker.id, problem.message)
        return await show(request, problem)
    if known_as is None:
        banner = "Issues use the platform connections. See Platforms for their status."
        return request.redirect(PATH, banner=banner)
    return request.redirect(
        PATH, banner=f"{tracker.name} is signed in to {tracker.url} as {known_as}."
    )


async def set_link_back(request: PageRequest) -> Response:
    tracker = await _tracker(request)
    changed = await trackers.set_link_back(
        request.db, request.organization, tracker.id, request.form.flag("link_back")
    )
    verb = "will be" if changed.link_back else "will no longer be"
    return request.redirect(PATH, banner=f"Pull requests {verb} linked on their tickets.")


async def replace_token(request: PageRequest) -> Response:
    tracker = await _tracker(request)
    async with (
        page_timeout(tracker.name, "The old token is still in use."),
        open_session(request) as session,
    ):
        _, known_as = await verify_and_replace(
            request.db,
            request.context.keys,
            session,
            request.organization,
            tracker.id,
            request.form.text("token"),
            page_retry_budget(),
        )
    banner = f"The new token of {known_as} is in use. Revoke the old token."
    return request.redirect(PATH, banner=banner)


async def remove(request: PageRequest) -> Response:
    tracker = await _tracker(request)
    await trackers.remove_tracker(request.db, request.organization, tracker.id)
    return request.redirect(PATH, banner=f"{tracker.name} was removed.")


async def _tracker(request: PageRequest) -> ConfiguredTracker:
    try:
        return await trackers.find_tracker(
            request.db, request.organization, request.path_param("id")
        )
    except Problem:
        raise Problem("not_found", "There is no such tracker. It may have been removed.") from None


def _new(form_values: _FormValues, token: str) -> NewTracker:
    if form_values.flavour not in _FLAVOURS:
        raise Problem("invalid_flavour", "Choose a Jira edition.")
    return NewTracker(
        kind="jira",
        name=form_values.name,
        url=form_values.url,
        account=form_values.account or None,
        token=token,
        flavour=form_values.flavour or None,  # type: ignore[arg-type] # checked above
        link_back=form_values.link_back,
    )


async def show(
    request: PageRequest, problem: Problem | None = None, *, open_form: Form | None = None
) -> Response:
    """`open_form` is the form with an error, which stays open."""
    is_jira = open_form == "jira"
    configured = await trackers.load_trackers(request.db, request.organization_id)
    errors = dict.fromkeys(_FIELD_OF.values(), "")
    if problem is not None and is_jira and problem.code in _FIELD_OF:
        errors[_FIELD_OF[problem.code]] = problem.message
    return await request.render(
        "settings/trackers.html",
        problem=problem,
        field_errors=errors,
        trackers=configured,
        has_issues=any(tracker.kind == "issues" for tracker in configured),
        flavours=list(_FLAVOURS.items()),
        flavour_names=_FLAVOURS,
        form_values=request.form.fill(_FormValues) if is_jira else _FormValues(),
        # The tracker whose token was to be replaced.
        open_form=request.path_param("id") if open_form == "token" else "",
        is_adding=open_form in {"issues", "jira"},
    )


def _form(name: Form, path: str, handler: PageHandler) -> PageRoute:
    return PageRoute("POST", path, "admin", handler, problem_page=partial(show, open_form=name))


ROUTES: Routes = [
    PageRoute("GET", PATH, "member", show),
    _form("issues", f"{PATH}/issues", add_issues),
    _form("jira", f"{PATH}/jira", add_jira),
    PageRoute("POST", f"{PATH}/{{id}}/check", "admin", check),
    PageRoute("POST", f"{PATH}/{{id}}/link-back", "admin", set_link_back),
    _form("token", f"{PATH}/{{id}}/token", replace_token),
    PageRoute("POST", f"{PATH}/{{id}}/remove", "admin", remove),
]

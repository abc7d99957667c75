"""Settings > Trackers: where tickets are looked up. A token comes in, and never out."""

import msgspec
from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.tickets import trackers
from agentjobs.tickets.trackers import ConfiguredTracker, NewTracker
from agentjobs.tickets.verify import add_checked, check_tracker, replace_checked
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.settings.forge_text import for_people
from agentjobs.web.dashboard.settings.platform_access import in_time, persons_patience, session_of

HERE = "/settings/trackers"

_FIELD_OF = {
    "invalid_url": "url",
    "invalid_account": "account",
    "invalid_credential": "token",
    "invalid_name": "name",
    "name_taken": "name",
    "tracker_refused": "token",
}
_FLAVOURS = {"": "Told by its address", "cloud": "Jira Cloud", "data-center": "Jira Data Center"}


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the form for Jira; its token never does."""

    url: str = ""
    account: str = ""
    flavour: str = ""
    name: str = ""
    link_back: bool = False


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def add_issues(visit: Visit) -> Response:
    new = NewTracker(kind="issues", link_back=visit.form.flag("link_back"))
    try:
        await trackers.add_tracker(visit.db, visit.context.keys, visit.organization, new)
    except Problem as problem:
        return await _page(visit, problem)
    said = "Issues are looked up with the connection of each repository."
    return visit.redirect(HERE, said=said)


async def add_jira(visit: Visit) -> Response:
    typed = _typed(visit.form)
    try:
        new = _new(typed, visit.form.text("token"))
        async with in_time("Jira", "Nothing was added."), session_of(visit) as session:
            added, known_as = await add_checked(
                visit.db,
                visit.context.keys,
                session,
                visit.organization,
                new,
                persons_patience(),
            )
    except Problem as problem:
        return await _page(visit, for_people(problem), typed)
    return visit.redirect(HERE, said=f"{added.name} is added: {added.url} knows it as {known_as}.")


async def check(visit: Visit) -> Response:
    tracker = await _tracker(visit)
    try:
        async with in_time(tracker.name, "Try again later."), session_of(visit) as session:
            _, known_as = await check_tracker(
                visit.db,
                visit.context.keys,
                session,
                visit.organization,
                tracker.id,
                persons_patience(),
            )
    except Problem as problem:
        if problem.code == "forge_unavailable":
            await trackers.note_check(visit.db, tracker.id, problem.message)
        return await _page(visit, for_people(problem))
    if known_as is None:
        said = "Issues have no token of their own; Platforms shows how the connections stand."
        return visit.redirect(HERE, said=said)
    return visit.redirect(HERE, said=f"{tracker.url} knows {tracker.name} as {known_as}.")


async def set_link_back(visit: Visit) -> Response:
    tracker = await _tracker(visit)
    changed = await trackers.set_link_back(
        visit.db, visit.organization, tracker.id, visit.form.flag("link_back")
    )
    told = "are linked" if changed.link_back else "are not linked"
    return visit.redirect(HERE, said=f"Pull requests {told} on their tickets from now on.")


async def replace_token(visit: Visit) -> Response:
    tracker = await _tracker(visit)
    try:
        async with (
            in_time(tracker.name, "The old token is still in use."),
            session_of(visit) as session,
        ):
            _, known_as = await replace_checked(
                visit.db,
                visit.context.keys,
                session,
                visit.organization,
                tracker.id,
                visit.form.text("token"),
                persons_patience(),
            )
    except Problem as problem:
        return await _page(visit, for_people(problem), opened=tracker.id)
    said = f"The new token is in use, as {known_as}; revoke the old one."
    return visit.redirect(HERE, said=said)


async def remove(visit: Visit) -> Response:
    tracker = await _tracker(visit)
    await trackers.remove_tracker(visit.db, visit.organization, tracker.id)
    return visit.redirect(HERE, said=f"{tracker.name} is removed.")


async def _tracker(visit: Visit) -> ConfiguredTracker:
    try:
        return await trackers.find_tracker(visit.db, visit.organization, visit.path("id"))
    except Problem:
        raise Problem("not_found", "There is no such tracker; it may have been removed.") from None


def _typed(form: Form) -> _Typed:
    return _Typed(
        url=form.text("url"),
        account=form.text("account"),
        flavour=form.text("flavour"),
        name=form.text("name"),
        link_back=form.flag("link_back"),
    )


def _new(typed: _Typed, token: str) -> NewTracker:
    if typed.flavour not in _FLAVOURS:
        raise Problem("invalid_flavour", "Choose which Jira it is.")
    return NewTracker(
        kind="jira",
        name=typed.name,
        url=typed.url,
        account=typed.account or None,
        token=token,
        flavour=typed.flavour or None,  # type: ignore[arg-type] # one of those above
        link_back=typed.link_back,
    )


async def _page(
    visit: Visit, problem: Problem | None = None, typed: _Typed | None = None, opened: str = ""
) -> Response:
    """`opened` is the tracker whose form was refused; `typed` what was, into that for Jira."""
    found = await trackers.trackers_of(visit.db, visit.organization_id)
    faults = dict.fromkeys(_FIELD_OF.values(), "")
    if problem is not None and typed is not None and problem.code in _FIELD_OF:
        faults[_FIELD_OF[problem.code]] = problem.message
    return await visit.page(
        "settings/trackers.html",
        problem=problem,
        faults=faults,
        trackers=found,
        has_issues=any(tracker.kind == "issues" for tracker in found),
        flavours=list(_FLAVOURS.items()),
        flavour_names=_FLAVOURS,
        typed=typed or _Typed(),
        opened=opened,
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", HERE, "member", show),
    Place("POST", f"{HERE}/issues", "admin", add_issues),
    Place("POST", f"{HERE}/jira", "admin", add_jira),
    Place("POST", f"{HERE}/{{id}}/check", "admin", check),
    Place("POST", f"{HERE}/{{id}}/link-back", "admin", set_link_back),
    Place("POST", f"{HERE}/{{id}}/token", "admin", replace_token),
    Place("POST", f"{HERE}/{{id}}/remove", "admin", remove),
]

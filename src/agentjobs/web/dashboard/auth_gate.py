"""Everyone who comes to the dashboard passes here: who it is, whether they may, and whether a
change was really asked for by them. Knows no page from the inside."""

import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.form_tokens import is_token_of, return_token, use_token
from agentjobs.organizations.key_ring import Caller
from agentjobs.organizations.memberships import memberships_of
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sessions import Origin, Viewer, find_viewer, switch_organization
from agentjobs.problems import Problem
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.access_log import ClientAddresses
from agentjobs.web.api.auth import CALLER
from agentjobs.web.api.errors import stopping
from agentjobs.web.basic_auth import caller_of
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.cookies import SESSION, read_cookie
from agentjobs.web.dashboard.error_pages import not_signed_in, wants_page
from agentjobs.web.dashboard.forms import Form, read_form
from agentjobs.web.dashboard.origins import check_origin, check_sign_in_is_safe
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.repo_addresses import let_routes_read_names
from agentjobs.web.dashboard.request_context import Guest, Visit

_Answer = Callable[[Request], Awaitable[Response]]
_NO_FORM = Form([])
_SENT_BEFORE = "This form was already submitted, so nothing was created or changed again."


def routes_of(context: WebContext, places: list[Place | OpenPlace]) -> list[BaseRoute]:
    """One route per address, so that a wrong method is told which there are."""
    let_routes_read_names()
    pages = {place.path for place in places if place.method == "GET"}
    door = _Door(context, pages)
    by_path: dict[str, dict[str, Place | OpenPlace]] = {}
    for place in places:
        by_path.setdefault(place.path, {})[place.method] = place
    return [
        Route(path, door.answer_for(methods), methods=list(methods))
        for path, methods in by_path.items()
    ]


class _Door:
    def __init__(self, context: WebContext, pages: set[str]) -> None:
        self._context = context
        self._pages = pages
        self._settings = context.settings
        self._addresses = ClientAddresses(context.settings.trusted_proxies)

    def answer_for(self, methods: dict[str, Place | OpenPlace]) -> _Answer:
        async def answer(request: Request) -> Response:
            place = methods["GET" if request.method == "HEAD" else request.method]
            return await self._answer(place, request)

        return answer

    async def _answer(self, place: Place | OpenPlace, request: Request) -> Response:
        if request.method == "POST":
            check_origin(request, self._settings)
            if self._context.stopping.is_set():
                raise stopping()
        if isinstance(place, OpenPlace):
            check_sign_in_is_safe(request, self._settings, self._addresses)
            guest = await self._guest(request)
            with acting_as(Actor("service", "agentjobs", address=guest.origin.address)):
                return await place.handler(guest)
        visit = await self._visit(place, request)
        if not visit.may(place.role):
            raise Problem(
                "role_required",
                f"This needs the role {place.role}, and yours in {visit.organization} is "
                f"{visit.viewer.role}. An administrator of the organization can change that.",
            )
        viewer = visit.viewer
        with acting_as(Actor("user", viewer.called, viewer.user_id, visit.origin.address)):
            if request.method == "POST":
                return await self._answer_form(place, visit)
            return await place.handler(visit)

    async def _answer_form(self, place: Place, visit: Visit) -> Response:
        """A form that was accepted is not accepted again, such as when its answer is reloaded."""
        token, address = visit.form.text("csrf"), visit.request.url.path
        if not await use_token(visit.db, token, address):
            return visit.redirect(self._page_of(place, visit), said=_SENT_BEFORE, tone="warn")
        is_accepted = False
        try:
            response = await place.handler(visit)
            is_accepted = response.status_code < HTTPStatus.BAD_REQUEST
            return response
        finally:
            if not is_accepted:
                with contextlib.suppress(StoreUnavailable):
                    await return_token(visit.db, token, address)

    def _page_of(self, place: Place, visit: Visit) -> str:
        """The page that a form belongs to: the nearest one above its address."""
        path, address = place.path, visit.request.url.path
        while path and path not in self._pages:
            path, address = path.rpartition("/")[0], address.rpartition("/")[0]
        return address or "/"

    async def _visit(self, place: Place, request: Request) -> Visit:
        viewer = await self._viewer(place, request)
        request.scope[CALLER] = viewer.caller
        guest = await self._guest(request)
        if request.method == "POST" and not is_token_of(viewer.csrf, guest.form.text("csrf")):
            raise Problem(
                "form_expired",
                "This form belongs to another session, so nothing was changed. Go back, reload "
                "the page and submit it again.",
            )
        visit = Visit(guest.context, guest.request, guest.origin, guest.form, viewer)
        return await self._in_named_organization(visit)

    async def _viewer(self, place: Place, request: Request) -> Viewer:
        if place.takes_keys and request.headers.get("authorization"):
            return _viewer_by_key(await caller_of(request))
        token = read_cookie(request, self._settings, SESSION)
        viewer = await find_viewer(self._context.db, self._settings, token) if token else None
        if viewer is None:
            raise not_signed_in(request, takes_keys=place.takes_keys)
        return viewer

    async def _in_named_organization(self, visit: Visit) -> Visit:
        """Some addresses name an organization: it must be one of the viewer's own.

        Who opens a page of it stands there from now on: its links name no organization. What a
        page fetches by itself must not move the viewer, who may look at another one meanwhile.
        """
        named = visit.request.path_params.get("org", visit.organization)
        if named == visit.organization:
            return visit
        theirs = await memberships_of(visit.db, visit.viewer.user_id)
        found = next((each for each in theirs if each.organization == named), None)
        if found is None or not visit.viewer.session:
            raise Problem("not_found", "There is no such page in your organizations.")
        visit.viewer = msgspec.structs.replace(
            visit.viewer,
            organization=found.organization,
            organization_id=found.organization_id,
            role=found.role,
            plan=(await find_organization(visit.db, named)).plan,
        )
        visit.request.scope[CALLER] = visit.viewer.caller
        if _is_opened(visit.request):
            await self._switch(visit)
        return visit

    async def _switch(self, visit: Visit) -> None:
        token = read_cookie(visit.request, self._settings, SESSION)
        # A store that is full can still be looked at.
        with contextlib.suppress(StoreUnavailable):
            await switch_organization(visit.db, token, visit.viewer.user_id, visit.organization)

    async def _guest(self, request: Request) -> Guest:
        form = await read_form(request) if request.method == "POST" else _NO_FORM
        agent = request.headers.get("user-agent", "")
        origin = Origin(self._addresses.of(request.scope), agent[:300])
        return Guest(self._context, request, origin, form)


def _is_opened(request: Request) -> bool:
    """By a person, as a page: not what a page's script fetches for a part of itself."""
    is_navigation = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
    is_part = "x-part" in request.headers
    return request.method == "GET" and is_navigation and not is_part and wants_page(request)


def _viewer_by_key(caller: Caller) -> Viewer:
    """Of a script or a person with a key: they may look, forms are for those who signed in."""
    return Viewer(
        user_id=caller.key_id,
        email="",
        name=caller.name,
        role="viewer",
        organization_id=caller.organization_id,
        organization=caller.organization,
        plan=caller.plan,
        session=b"",
        csrf="",
        created_at=0,
        memberships=1,
    )

"""Guards every dashboard route: session, role, origin and form token.

A handler runs only after these checks pass. This module knows nothing about individual pages.
"""

import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.organizations.audit import Actor, ActorKind, acting_as
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.form_tokens import is_valid_token, return_token, use_token
from agentjobs.organizations.memberships import list_memberships
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sessions import Origin, Viewer, find_viewer, switch_organization
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.api.auth import CALLER
from agentjobs.web.api.errors import stopping
from agentjobs.web.api.requests import check_content_encoding
from agentjobs.web.basic_auth import authenticate_caller
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.cookies import SESSION, read_cookie
from agentjobs.web.dashboard.error_pages import NO_PAGE, not_signed_in, requested_page, wants_page
from agentjobs.web.dashboard.forms import Form, read_form
from agentjobs.web.dashboard.origins import check_origin, check_sign_in_is_safe
from agentjobs.web.dashboard.page_route import PageRoute, PublicRoute, Routes
from agentjobs.web.dashboard.request_context import AnonymousRequest, PageRequest
from agentjobs_runtime.problems import Problem

_Handler = Callable[[Request], Awaitable[Response]]
_EMPTY_FORM = Form([])
_ALREADY_SUBMITTED = "This form was already submitted, so nothing was created or changed again."
_MAX_USER_AGENT_LENGTH = 300


def guarded_routes(context: WebContext, routes: Routes) -> list[BaseRoute]:
    """One Starlette route per path, so that a 405 response lists every allowed method."""
    gate = _AuthGate(context)
    by_path: dict[str, dict[str, PageRoute | PublicRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    return [
        Route(path, gate.handler_for(methods), methods=list(methods))
        for path, methods in by_path.items()
    ]


class _AuthGate:
    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._settings = context.settings
        self._addresses = context.client_addresses

    def handler_for(self, methods: dict[str, PageRoute | PublicRoute]) -> _Handler:
        async def handle(http: Request) -> Response:
            route = methods["GET" if http.method == "HEAD" else http.method]
            return await self._handle(route, http)

        return handle

    async def _handle(self, route: PageRoute | PublicRoute, http: Request) -> Response:
        check_content_encoding(http.scope)
        if http.method == "POST":
            check_origin(http, self._settings)
            if self._context.stopping.is_set():
                raise stopping()
        if isinstance(route, PublicRoute):
            return await self._handle_public(route, http)
        request = await self._authenticate(route, http)
        if not request.may(route.role):
            raise _refusal(route, request)
        with acting_as(_actor(route, request)):
            if http.method == "POST":
                return await self._submit_form(route, request)
            return await route.handler(request)

    async def _handle_public(self, route: PublicRoute, http: Request) -> Response:
        check_sign_in_is_safe(http, self._settings, self._addresses)
        request = await self._read(http)
        with acting_as(Actor("service", "agentjobs", address=request.origin.address)):
            return await route.handler(request)

    async def _submit_form(self, route: PageRoute, request: PageRequest) -> Response:
        """Accepts each form once; reloading the response does not repeat its effect."""
        token, address = request.form.text("csrf"), request.http.url.path
        if not await use_token(request.db, token, address):
            page = requested_page(request.http, self._settings.public_path)
            return request.redirect(page, banner=_ALREADY_SUBMITTED, tone="warn")
        is_accepted = False
        try:
            response = await _handle_form(route, request)
            is_accepted = response.status_code < HTTPStatus.BAD_REQUEST
            return response
        finally:
            if not is_accepted:
                with contextlib.suppress(StoreUnavailable):
                    await return_token(request.db, token, address)

    async def _authenticate(self, route: PageRoute, http: Request) -> PageRequest:
        try:
            viewer = await self._viewer(route, http)
        except (Problem, StoreUnavailable):
            # The page of the error shows what was written.
            with contextlib.suppress(Problem):
                await self._read(http)
            raise
        http.scope[CALLER] = viewer.caller
        anonymous = await self._read(http)
        if http.method == "POST" and not is_valid_token(viewer.csrf, anonymous.form.text("csrf")):
            raise Problem(
                "form_expired",
                "This form belongs to another session, so nothing was changed. Open the page "
                "again and submit it there.",
            )
        request = PageRequest(self._context, http, anonymous.origin, anonymous.form, viewer)
        await self._enter_named_organization(request)
        return request

    async def _viewer(self, route: PageRoute, http: Request) -> Viewer:
        if route.takes_keys and http.headers.get("authorization"):
            return _viewer_of_key(await authenticate_caller(http))
        token = read_cookie(http, self._settings, SESSION)
        viewer = await find_viewer(self._context.db, self._settings, token) if token else None
        if viewer is None:
            raise not_signed_in(http, takes_keys=route.takes_keys)
        return viewer

    async def _enter_named_organization(self, request: PageRequest) -> None:
        """Some paths name an organization; the viewer must be a member of it.

        Opening such a page switches the session to that organization, because the page's links
        do not name it. Requests made by a page's script do not switch: the viewer may be looking
        at another organization in a second window.
        """
        name = request.http.path_params.get("org", request.organization)
        if name == request.organization:
            return
        memberships = await list_memberships(request.db, request.viewer.user_id)
        membership = next(
            (membership for membership in memberships if membership.organization == name), None
        )
        if membership is None or not request.viewer.session:
            raise Problem("not_found", "There is no such page in your organizations.")
        request.viewer = msgspec.structs.replace(
            request.viewer,
            organization=membership.organization,
            organization_id=membership.organization_id,
            role=membership.role,
            plan=(await find_organization(request.db, name)).plan,
        )
        request.http.scope[CALLER] = request.viewer.caller
        if _is_navigation(request.http):
            await self._switch_organization(request)

    async def _switch_organization(self, request: PageRequest) -> None:
        token = read_cookie(request.http, self._settings, SESSION)
        # A store that refuses writes can still serve the page.
        with contextlib.suppress(StoreUnavailable):
            await switch_organization(
                request.db, token, request.viewer.user_id, request.organization
            )

    async def _read(self, http: Request) -> AnonymousRequest:
        form = await read_form(http) if http.method == "POST" else _EMPTY_FORM
        http.state.form = form
        user_agent = http.headers.get("user-agent", "")[:_MAX_USER_AGENT_LENGTH]
        origin = Origin(self._addresses.of(http.scope), user_agent)
        return AnonymousRequest(self._context, http, origin, form)


async def _handle_form(route: PageRoute, request: PageRequest) -> Response:
    try:
        return await route.handler(request)
    except Problem as problem:
        if route.problem_page is None or problem.code == "not_found":
            raise
        return await route.problem_page(request, problem)


def _actor(route: PageRoute, request: PageRequest) -> Actor:
    """Members of an organization see that it was an operator of the service, not one of them."""
    kind: ActorKind = "operator" if route.role == "operator" else "user"
    viewer = request.viewer
    return Actor(kind, viewer.display_name, viewer.user_id, request.origin.address)


def _refusal(route: PageRoute, request: PageRequest) -> Problem:
    if route.role == "operator":
        return Problem("not_found", NO_PAGE)
    return Problem(
        "role_required",
        f"This requires the role {route.role}; your role in {request.organization} is "
        f"{request.viewer.role}. An admin of the organization can change it.",
    )


def _is_navigation(http: Request) -> bool:
    """Whether a person opened the page, rather than the page's script fetching a part of it."""
    is_navigation = http.headers.get("sec-fetch-mode", "navigate") == "navigate"
    is_part = "x-part" in http.headers
    return http.method == "GET" and is_navigation and not is_part and wants_page(http)


def _viewer_of_key(caller: Caller) -> Viewer:
    """Read-only access with an API key. Forms require a session."""
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

"""Signing in and out: a password, a one-time link, the organization's own provider."""

from starlette.responses import Response

from agentjobs.organizations.sessions import find_viewer
from agentjobs.organizations.sign_in import sign_in_with_identity, sign_in_with_password
from agentjobs.organizations.sign_in_links import use_link
from agentjobs.organizations.signing_out import end_session
from agentjobs.problems import Problem
from agentjobs.web.dashboard.cookies import OPENID, SESSION, drop_cookie, read_cookie, set_cookie
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Guest, Visit

_DAY_SECONDS = 86_400
_OPENID_SECONDS = 600


async def show(guest: Guest) -> Response:
    token = guest.query("token")
    if token and guest.request.method == "GET":
        return await _by_link(guest, token)
    if not guest.query("next") and await _is_signed_in(guest):
        return guest.redirect("/")
    return await _page(guest, next=safe_next(guest.query("next") or "/"))


async def by_password(guest: Guest) -> Response:
    form = guest.form
    email, next_place = form.text("email"), safe_next(form.text("next") or "/")
    try:
        token = await sign_in_with_password(
            guest.db,
            guest.settings,
            email,
            form.raw("password"),
            guest.origin,
            replacing=current_token(guest),
        )
    except Problem as problem:
        return await _page(guest, next=next_place, email=email, problem=problem)
    return signed_in(guest, token, next_place)


async def by_provider(guest: Guest) -> Response:
    openid = guest.context.openid
    if openid is None:
        raise Problem("not_found", "Signing in with a provider is not set up here.")
    try:
        started = await openid.begin(
            safe_next(guest.query("next") or "/"), guest.query("invitation") or None
        )
    except Problem as problem:
        return await _page(guest, next="/", problem=problem)
    response = guest.redirect("/")
    response.headers["Location"] = started.url
    set_cookie(response, guest.settings, OPENID, started.cookie, _OPENID_SECONDS)
    return response


async def back_from_provider(guest: Guest) -> Response:
    openid = guest.context.openid
    if openid is None:
        raise Problem("not_found", "Signing in with a provider is not set up here.")
    cookie = read_cookie(guest.request, guest.settings, OPENID)
    try:
        finished = await openid.finish(cookie, dict(guest.request.query_params))
        token = await sign_in_with_identity(
            guest.db,
            guest.settings,
            finished.identity,
            guest.origin,
            invitation=finished.invitation,
            replacing=current_token(guest),
        )
    except Problem as problem:
        response = await _page(guest, next="/", problem=problem)
    else:
        response = signed_in(guest, token, safe_next(finished.next))
    drop_cookie(response, guest.settings, OPENID)
    return response


async def sign_out(visit: Visit) -> Response:
    await end_session(visit.db, read_cookie(visit.request, visit.settings, SESSION))
    return signed_out(visit, "You are signed out.")


def current_token(guest: Guest) -> str | None:
    return read_cookie(guest.request, guest.settings, SESSION) or None


def signed_in(guest: Guest, token: str, place: str, said: str = "") -> Response:
    response = guest.redirect(place, said=said)
    seconds = int(guest.settings.session_days * _DAY_SECONDS)
    set_cookie(response, guest.settings, SESSION, token, seconds)
    return response


def signed_out(guest: Guest, said: str) -> Response:
    response = guest.redirect("/sign-in", said=said)
    drop_cookie(response, guest.settings, SESSION)
    return response


async def _is_signed_in(guest: Guest) -> bool:
    token = current_token(guest)
    return token is not None and await find_viewer(guest.db, guest.settings, token) is not None


async def _by_link(guest: Guest, token: str) -> Response:
    try:
        session = await use_link(
            guest.db, guest.settings, token, guest.origin, replacing=current_token(guest)
        )
    except Problem as problem:
        return await _page(guest, next="/", problem=problem)
    return signed_in(guest, session, "/")


async def _page(
    guest: Guest, *, next: str, email: str = "", problem: Problem | None = None
) -> Response:
    provider = guest.settings.oidc_name if guest.context.openid else ""
    return await guest.page(
        "sign_in.html", next=next, email=email, provider=provider, problem=problem
    )


PLACES: list[Place | OpenPlace] = [
    OpenPlace("GET", "/sign-in", show),
    OpenPlace("POST", "/sign-in", by_password),
    OpenPlace("GET", "/sign-in/oidc", by_provider),
    OpenPlace("GET", "/sign-in/oidc/callback", back_from_provider),
    Place("POST", "/sign-out", "viewer", sign_out),
]

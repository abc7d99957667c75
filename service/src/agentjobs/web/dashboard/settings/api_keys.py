"""Settings > API keys: creating, listing, editing and revoking keys. A key is shown once."""

import shlex

import msgspec
from starlette.responses import Response

from agentjobs.organizations.api_keys import (
    ApiKey,
    CreatedKey,
    KeyChanges,
    create_key,
    edit_key,
    list_keys,
    revoke_key,
)
from agentjobs.organizations.key_networks import split_networks
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.problems import Problem

_PATH = "/settings/api-keys"
_EXPIRES_SOON_MS = 7 * DAY_MS
_INACTIVE = ("expired", "revoked")
_CUSTOM = "own"
_NEVER = "never"
_UNCHANGED = "unchanged"
_EXPIRIES = (
    ("30", "After 30 days"),
    ("90", "After 90 days"),
    ("365", "After a year"),
    (_CUSTOM, "After a custom number of days"),
    (_NEVER, "Never"),
)


class _FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the form."""

    name: str = ""
    scope: str = "jobs"
    pulls: bool = False
    git_write: bool = False
    expires: str = "90"
    days: str = ""
    networks: str = ""


async def create(request: PageRequest) -> Response:
    form_values = request.form.fill(_FormValues)
    created = await create_key(
        request.db,
        request.organization,
        name=_name(form_values),
        scope=form_values.scope,
        pulls=form_values.pulls,
        git_write=form_values.git_write,
        expires_at=await _expires_at(request, form_values),
        allowed_networks=split_networks(form_values.networks),
    )
    # Not a redirect, because only this response shows the key.
    return await show(request, created=created)


async def edit(request: PageRequest) -> Response:
    key = await _editable_key(request)
    form_values = request.form.fill(_FormValues)
    changes = await _changes(request, form_values)
    await edit_key(request.db, request.organization, key.id, changes)
    return request.redirect(_PATH, banner=f"The key {form_values.name} was changed.")


async def revoke(request: PageRequest) -> Response:
    try:
        revoked = await revoke_key(request.db, request.organization, request.path_param("id"))
    except Problem as problem:
        if problem.code != "key_not_found":
            raise
        raise _no_such_key() from None
    return request.redirect(_PATH, banner=f"The key {revoked.name} was revoked.")


async def _editable_key(request: PageRequest) -> ApiKey:
    keys = await list_keys(request.db, request.organization)
    key = next((key for key in keys if key.id == request.path_param("id")), None)
    if key is None or key.revoked_at is not None:
        raise _no_such_key()
    return key


async def _changes(request: PageRequest, form_values: _FormValues) -> KeyChanges:
    networks = split_networks(form_values.networks)
    changes = KeyChanges(name=_name(form_values), allowed_networks=networks)
    if form_values.expires == _UNCHANGED:
        return changes
    return msgspec.structs.replace(changes, expires_at=await _expires_at(request, form_values))


def _form_values(key: ApiKey) -> _FormValues:
    networks = ", ".join(key.allowed_networks)
    return _FormValues(name=key.name, expires=_UNCHANGED, networks=networks)


async def show_key(request: PageRequest, problem: Problem | None = None) -> Response:
    key = await _editable_key(request)
    return await request.render(
        "settings/api_key.html",
        problem=problem,
        form_values=request.form.fill(_FormValues) if problem else _form_values(key),
        key=key,
        expiries=[(value, text, "") for value, text in ((_UNCHANGED, "No change"), *_EXPIRIES)],
    )


def _no_such_key() -> Problem:
    return Problem("not_found", "There is no such key. See Settings > API keys.")


async def show(
    request: PageRequest, problem: Problem | None = None, *, created: CreatedKey | None = None
) -> Response:
    keys = await list_keys(request.db, request.organization)
    now = await request.db.clock_ms()
    states = [(key, _state(key, now)) for key in reversed(keys)]
    return await request.render(
        "settings/api_keys.html",
        problem=problem,
        form_values=request.form.fill(_FormValues) if problem else _FormValues(),
        created=created,
        example=None if created is None else _example(request, created.key),
        active=[(key, state) for key, state in states if state not in _INACTIVE],
        inactive=[(key, state) for key, state in states if state in _INACTIVE],
        expiries=[(value, text, "") for value, text in _EXPIRIES],
    )


def _name(form_values: _FormValues) -> str:
    if not form_values.name:
        raise Problem(
            "invalid_name", "Enter a name that says who or what uses the key, such as CI."
        )
    return form_values.name


async def _expires_at(request: PageRequest, form_values: _FormValues) -> int | None:
    """None if the key never expires."""
    if form_values.expires == _NEVER:
        return None
    if form_values.expires not in dict(_EXPIRIES):
        raise Problem("invalid_expiry", "Choose when the key expires.")
    days = request.form.whole_number(
        "days" if form_values.expires == _CUSTOM else "expires", "Number of days"
    )
    if days is None:
        raise Problem("invalid_expiry", "Enter the number of days after which the key expires.")
    return await request.db.clock_ms() + days * DAY_MS


def _state(key: ApiKey, now: int) -> str:
    """Active, expires soon, or one of the inactive states."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "active"
    if key.expires_at <= now:
        return "expired"
    return "expires soon" if key.expires_at - now < _EXPIRES_SOON_MS else "active"


def _example(request: PageRequest, key: str) -> str:
    address = shlex.quote(f"{request.settings.effective_public_url}/v1/agents")
    return f'curl -sS {address} -H "Authorization: Bearer {key}"'


ROUTES: Routes = [
    PageRoute("GET", _PATH, "admin", show),
    PageRoute("POST", _PATH, "admin", create, problem_page=show),
    PageRoute("GET", f"{_PATH}/{{id}}", "admin", show_key),
    PageRoute("POST", f"{_PATH}/{{id}}", "admin", edit, problem_page=show_key),
    PageRoute("POST", f"{_PATH}/{{id}}/revoke", "admin", revoke),
]

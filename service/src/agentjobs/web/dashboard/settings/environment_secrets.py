"""Settings > Secrets of environments: for setup, the proxy and registries. Never shows values."""

from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.environments.secret_definition import PURPOSES, SecretInput, parse_secret
from agentjobs.environments.secrets import (
    list_environment_secrets,
    remove_environment_secret,
    set_environment_secret,
)
from agentjobs.repos.queries import find_repo
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.sealing_problems import for_page
from agentjobs_runtime.environments.brokered_host import KINDS
from agentjobs_runtime.problems import Problem

_PATH = "/settings/secrets/environments"


class _FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the form, without the secret."""

    name: str = ""
    purpose: str = "setup"
    repo: str = ""
    host: str = ""
    header: str = ""
    path_prefix: str = ""
    methods: str = ""
    kind: str = ""
    username: str = ""


async def show(request: PageRequest) -> Response:
    return await _page(request, _FormValues())


async def change(request: PageRequest) -> Response:
    entered = request.form.fill(_FormValues)
    # Copying often adds whitespace around a key.
    value = request.form.raw("value").strip()
    try:
        if not value:
            raise Problem("invalid_secret", "Enter a value for the secret.")
        texts: dict[str, str] = msgspec.structs.asdict(entered)
        repo_id = await _repo_id(request, texts.pop("repo"))
        definition = parse_secret(SecretInput(**texts, value=value), repo_id)
        secret = await set_environment_secret(
            request.db, request.context.keys, request.organization_id, definition, value
        )
    except Problem as problem:
        return await _page(request, entered, is_open=True, problem=for_page(problem))
    verb = "set" if secret.created_at == secret.updated_at else "replaced"
    return request.redirect(_PATH, banner=f"{entered.name} was {verb}.")


async def remove(request: PageRequest) -> Response:
    name = request.form.text("name")
    try:
        repo_id = await _repo_id(request, request.form.text("repo"))
        await remove_environment_secret(request.db, request.organization_id, repo_id, name)
    except Problem as problem:
        if problem.code not in {"secret_not_found", "repo_not_connected"}:
            raise
        missing = Problem("not_found", "That secret no longer exists. Nothing was removed.")
        return await _page(request, _FormValues(), problem=missing)
    return request.redirect(_PATH, banner=f"{name} was removed.")


async def _repo_id(request: PageRequest, full_name: str) -> str:
    """Empty if no repository is named."""
    if not full_name:
        return ""
    try:
        return (await find_repo(request.db, request.organization_id, full_name)).id
    except Problem:
        raise Problem(
            "repo_not_connected",
            f"No repository {full_name} is connected; enter its name as OWNER/NAME.",
        ) from None


async def _page(
    request: PageRequest,
    entered: _FormValues,
    *,
    is_open: bool = False,
    problem: Problem | None = None,
) -> Response:
    """`is_open`: the form is shown, and the problem is its own."""
    values: dict[str, Any] = {
        "entered": entered,
        "is_open": is_open,
        "secrets": await list_environment_secrets(request.db, request.organization_id),
        "purposes": [(purpose, purpose) for purpose in PURPOSES],
        "kinds": [("", "none"), *((kind, kind) for kind in KINDS)],
    }
    return await request.render("settings/environment_secrets.html", problem=problem, **values)


ROUTES: Routes = [
    PageRoute("GET", _PATH, "admin", show),
    PageRoute("POST", _PATH, "admin", change),
    PageRoute("POST", f"{_PATH}/remove", "admin", remove),
]
